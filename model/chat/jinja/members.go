package jinja

import (
	"slices"
	"strings"

	"popri/internal/numeric"
)

// attribute is v.n: a method or a member of Python's, and if there is none, the item of that name.
func (in *state) attribute(v Value, n string) Value {
	defined(v)
	if m, ok := in.own(v, n); ok {
		return m
	}
	if d, ok := v.(*Dict); ok {
		if x, ok := d.Get(n); ok {
			return x
		}
	}
	return undefined{"the member " + quoted(n) + " of " + typeName(v)}
}

// item is v[key]; of a text for which there is no item, the method of that name.
func (in *state) item(v, key Value) Value {
	defined(v)
	i, _, whole, isNumber := number(key)
	switch of := plain(v).(type) {
	case *Dict:
		if x, ok := of.Get(key); ok {
			return x
		}
	case *List:
		if isNumber && whole && of.indexed() {
			if i < 0 {
				i += int64(len(of.Items))
			}
			if i >= 0 && i < int64(len(of.Items)) {
				return of.Items[i]
			}
		}
	case string:
		if isNumber && whole {
			if i < 0 {
				i += length(of)
			}
			for _, r := range of {
				if i == 0 {
					return string(r)
				}
				i--
			}
		}
	}
	if n, ok := plain(key).(string); ok {
		if m, ok := in.own(v, n); ok {
			return m
		}
		return undefined{"the member " + quoted(n) + " of " + typeName(v)}
	}
	return undefined{"the element of " + typeName(v)}
}

// slice is v[from:to:by].
func (in *state) slice(v Value, at [3]Value) Value {
	var bounds [3]*int64
	for k, b := range at {
		if b == nil {
			continue
		}
		i, _, whole, ok := number(b)
		if !ok || !whole {
			fail("the bounds of a slice are whole numbers, not %s", typeName(b))
		}
		bounds[k] = &i
	}
	var items []Value
	var runes []rune
	switch of := plain(v).(type) {
	case string:
		runes = []rune(of)
		in.made(4 * len(runes))
	case *List:
		if !of.indexed() {
			fail("%s has no slices", typeName(v))
		}
		items = of.Items
	default:
		fail("%s has no slices", typeName(v))
	}
	indices := sliced(int64(len(items)+len(runes)), bounds)
	in.made(16 * len(indices))
	if l, ok := v.(*List); ok {
		return &List{kind: l.kind, Items: numeric.Map(indices, func(i int64) Value { return items[i] })}
	}
	var b strings.Builder
	for _, i := range indices {
		b.WriteRune(runes[i])
	}
	if _, ok := v.(safe); ok {
		return safe(b.String())
	}
	return b.String()
}

// sliced are the indices of a slice, as Python has them.
func sliced(n int64, bounds [3]*int64) (indices []int64) {
	by := int64(1)
	if bounds[2] != nil {
		by = *bounds[2]
	}
	if by == 0 {
		fail("the step of a slice is 0")
	}
	low, high := int64(0), n // that a bound is cut to
	from, to := int64(0), n
	if by < 0 {
		low, high, from, to = -1, n-1, n-1, -1
	}
	cut := func(b *int64, otherwise int64) int64 {
		if b == nil {
			return otherwise
		}
		i := *b
		if i < 0 {
			i += n
		}
		return min(high, max(low, i))
	}
	from, to = cut(bounds[0], from), cut(bounds[1], to)
	for i := from; by > 0 && i < to || by < 0 && i > to; i += by {
		indices = append(indices, i)
		if by > n || by < -n {
			break
		}
	}
	return indices
}

// What a list or a dict has in Python and a template may not use: the sandbox refuses what changes them.
var changing = map[string][]string{
	"a list": {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"},
	"a dict": {"clear", "pop", "popitem", "setdefault", "update"},
}

// notSupported are methods and members of Python that this package lacks.
var notSupported = map[string][]string{
	"a text": {"casefold", "center", "encode", "expandtabs", "format_map", "isascii", "isdecimal", "isidentifier",
		"isnumeric", "isprintable", "istitle", "ljust", "maketrans", "rjust", "swapcase", "translate", "zfill"},
	"a dict": {"fromkeys"},
	"an int": {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes", "imag",
		"is_integer", "numerator", "real", "to_bytes"},
	"a float": {"as_integer_ratio", "conjugate", "fromhex", "hex", "imag", "is_integer", "real"},
	"a range": {"start", "step", "stop", "count", "index"}, "a dict_items": {"isdisjoint", "mapping"},
	"a dict_keys": {"isdisjoint", "mapping"}, "a dict_values": {"mapping"}, "a generator": {"close", "send", "throw"},
}

// own is a method of a value, or a member that is no item.
func (in *state) own(v Value, n string) (Value, bool) {
	kind := typeName(v)
	if kind == "a bool" {
		kind = "an int"
	}
	if strings.HasPrefix(n, "__") {
		fail("access to %s is unsafe", n)
	}
	if slices.Contains(changing[kind], n) {
		fail("%s of %s is unsafe: a template changes no value", n, kind)
	}
	if slices.Contains(notSupported[kind], n) {
		fail("%s of %s is not supported", n, kind)
	}
	method := func(call func(in *state, a args) Value) (Value, bool) {
		return &Function{Name: n, call: call}, true
	}
	switch v := v.(type) {
	case string:
		if m, ok := textMethods[n]; ok {
			return method(func(in *state, a args) Value { return m(in, v, a) })
		}
	case safe:
		if _, ok := textMethods[n]; ok {
			fail("%s of a text with the mark of the filter safe is not supported", n)
		}
	case *Dict:
		if m, ok := dictMethods[n]; ok {
			return method(func(in *state, a args) Value { return m(in, v, a) })
		}
	case *List:
		switch {
		case v.kind != "" && v.kind != tupleKind:
		case n == "copy" && v.kind == "":
			return method(func(in *state, a args) Value {
				a.given(n)
				in.made(16 * len(v.Items))
				return NewList(slices.Clone(v.Items)...)
			})
		case n == "count":
			return method(func(in *state, a args) Value {
				of, _ := a.given(n, "value")
				count := int64(0)
				for _, x := range v.Items {
					count += integerOf(in.equal(x, of[0], 0))
				}
				return count
			})
		case n == "index":
			return method(func(in *state, a args) Value {
				of, _ := a.given(n, "value")
				i := slices.IndexFunc(v.Items, func(x Value) bool { return in.equal(x, of[0], 0) })
				if i < 0 {
					fail("the value is not in the list")
				}
				return int64(i)
			})
		}
	case namespace:
		if x, ok := v.Get(n); ok {
			return x, true
		}
	case *loopState:
		return v.attribute(in, n), true
	case *Function:
		fail("%s of a function is not supported", n)
	}
	return nil, false
}

var dictMethods = map[string]func(in *state, d *Dict, a args) Value{
	"items": func(in *state, d *Dict, a args) Value {
		a.given("items")
		in.made(64 * len(d.keys))
		return view("dict_items", d.pairs())
	},
	"keys":   func(_ *state, d *Dict, a args) Value { a.given("keys"); return view("dict_keys", d.keys) },
	"values": func(_ *state, d *Dict, a args) Value { a.given("values"); return view("dict_values", d.values) },
	"get": func(_ *state, d *Dict, a args) Value {
		of, has := a.given("get", "key", "default")
		if _, ok := hashed(of[0]); !has[0] || !ok {
			fail("get takes a key, not %s", typeName(of[0]))
		}
		if v, ok := d.Get(of[0]); ok {
			return v
		}
		return of[1]
	},
	"copy": func(in *state, d *Dict, a args) Value {
		a.given("copy")
		in.made(64 * len(d.keys))
		return dictOf(args{[]Value{d}, NewDict()})
	},
}
