package jinja

import "unicode"

// tested applies a test.
func (in *state) tested(n string, v Value, a args) bool {
	in.step(1)
	if t, ok := kinds[n]; ok {
		a.given(n)
		return t(in, v)
	}
	t, ok := tests[n]
	if !ok {
		fail("the test %s is unknown or not supported", n)
	}
	of, has := a.given(n, "other")
	if !has[0] {
		fail("the test %s needs a value", n)
	}
	return t(in, v, of[0])
}

// kinds are the tests of a value alone.
var kinds = map[string]func(in *state, v Value) bool{
	"defined":   func(_ *state, v Value) bool { _, ok := v.(undefined); return !ok },
	"undefined": func(_ *state, v Value) bool { _, ok := v.(undefined); return ok },
	"none":      func(_ *state, v Value) bool { return v == nil },
	"string":    func(_ *state, v Value) bool { _, ok := plain(v).(string); return ok },
	"number":    func(_ *state, v Value) bool { _, _, _, ok := number(v); return ok },
	"integer":   func(_ *state, v Value) bool { _, ok := v.(int64); return ok },
	"float":     func(_ *state, v Value) bool { _, ok := v.(float64); return ok },
	"boolean":   func(_ *state, v Value) bool { _, ok := v.(bool); return ok },
	"true":      func(_ *state, v Value) bool { return v == true },
	"false":     func(_ *state, v Value) bool { return v == false },
	"mapping":   func(_ *state, v Value) bool { _, ok := v.(*Dict); return ok },
	"sequence": func(_ *state, v Value) bool {
		l, ok := v.(*List)
		return ok && l.indexed() || isOne[string](v) || isOne[safe](v) || isOne[*Dict](v) || isOne[undefined](v)
	},
	"iterable": func(_ *state, v Value) bool {
		return isOne[*List](v) || isOne[string](v) || isOne[safe](v) || isOne[*Dict](v) || isOne[undefined](v)
	},
	"callable": func(_ *state, v Value) bool {
		return isOne[*Function](v) || isOne[undefined](v) || isOne[*loopState](v)
	},
	"odd":   func(in *state, v Value) bool { return in.equal(remainder(in, v, int64(2)), int64(1), 0) },
	"even":  func(in *state, v Value) bool { return in.equal(remainder(in, v, int64(2)), int64(0), 0) },
	"upper": func(in *state, v Value) bool { return isCased(in.str(v), unicode.IsUpper, unicode.IsLower) },
	"lower": func(in *state, v Value) bool { return isCased(in.str(v), unicode.IsLower, unicode.IsUpper) },
}

func isOne[T any](v Value) bool { _, ok := v.(T); return ok }

// tests are those with another value.
var tests = map[string]func(in *state, v, other Value) bool{
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
