package jinja

import "unicode"

// tested applies a test.
func (in *state) tested(n string, v Value, a args) bool {
	in.step(1)
	if t, ok := kinds[n]; ok {
		a.given(n)
		return t(v)
	}
	t, ok := tests[n]
	if !ok {
		fail("the test %s is unknown or not supported", n)
	}
	switch n {
	case "odd", "even", "upper", "lower":
		a.given(n)
		return t(in, v, nil)
	}
	of, has := a.given(n, "other")
	if !has[0] {
		fail("the test %s needs a value", n)
	}
	return t(in, v, of[0])
}

// kinds are the tests of a value alone.
var kinds = map[string]func(v Value) bool{
	"defined":   func(v Value) bool { _, ok := v.(undefined); return !ok },
	"undefined": func(v Value) bool { _, ok := v.(undefined); return ok },
	"none":      func(v Value) bool { return v == nil },
	"string":    func(v Value) bool { _, ok := plain(v).(string); return ok },
	"number":    func(v Value) bool { _, _, _, ok := number(v); return ok },
	"integer":   func(v Value) bool { _, ok := v.(int64); return ok },
	"float":     func(v Value) bool { _, ok := v.(float64); return ok },
	"boolean":   func(v Value) bool { _, ok := v.(bool); return ok },
	"true":      func(v Value) bool { return v == true },
	"false":     func(v Value) bool { return v == false },
	"mapping":   func(v Value) bool { _, ok := v.(*Dict); return ok },
	"sequence": func(v Value) bool {
		l, ok := v.(*List)
		return ok && l.indexed() || isOne[string](v) || isOne[safe](v) || isOne[*Dict](v) || isOne[undefined](v)
	},
	"iterable": func(v Value) bool {
		return isOne[*List](v) || isOne[string](v) || isOne[safe](v) || isOne[*Dict](v) || isOne[undefined](v)
	},
	"callable": func(v Value) bool { return isOne[*Function](v) || isOne[undefined](v) || isOne[*loopState](v) },
}

func isOne[T any](v Value) bool { _, ok := v.(T); return ok }

// tests are those with another value, and those that need the state.
var tests = map[string]func(in *state, v, other Value) bool{
	"odd":         func(in *state, v, _ Value) bool { return in.equal(remainder(in, v, int64(2)), int64(1), 0) },
	"even":        func(in *state, v, _ Value) bool { return in.equal(remainder(in, v, int64(2)), int64(0), 0) },
	"upper":       func(in *state, v, _ Value) bool { return isCased(in.str(v), unicode.IsUpper, unicode.IsLower) },
	"lower":       func(in *state, v, _ Value) bool { return isCased(in.str(v), unicode.IsLower, unicode.IsUpper) },
	"divisibleby": func(in *state, v, by Value) bool { return in.equal(remainder(in, v, by), int64(0), 0) },
	"sameas": func(in *state, v, other Value) bool {
		for _, x := range []Value{v, other} {
			switch x.(type) {
			case nil, bool, *List, *Dict, *Function:
				return v == other
			}
		}
		fail("sameas of %s is not supported", typeName(v))
		return false
	},
	"in": func(in *state, v, whole Value) bool { return in.contains(whole, v) },
}
