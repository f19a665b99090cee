package jinja

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"popri/internal/numeric"
)

// Value is a value as Python has it: nil (None), a bool, an int64, a float64, a string, a [*List], a [*Dict], a
// [*Function], or one of the kinds that only a template makes.
type Value = any

// List is a list or one of its kin.
type List struct {
	Items []Value
	kind  string // "" for a list, tuple, range, a view of a dict, or generator, which gives its items once
	used  bool   // of a generator
}

// NewList returns a list.
func NewList(items ...Value) *List { return &List{Items: items} }

const (
	tupleKind     = "tuple"
	rangeKind     = "range"
	generatorKind = "generator"
)

func tuple(items ...Value) *List         { return &List{Items: items, kind: tupleKind} }
func generator(items []Value) *List      { return &List{Items: items, kind: generatorKind} }
func (l *List) indexed() bool            { return l.kind == "" || l.kind == tupleKind || l.kind == rangeKind }
func (l *List) sized() bool              { return l.kind != generatorKind }
func view(kind string, of []Value) *List { return &List{Items: of, kind: kind} }

// Dict is a dict: its keys keep their order.
type Dict struct {
	keys   []Value
	values []Value
	index  map[Value]int
}

// NewDict returns an empty dict.
func NewDict() *Dict { return &Dict{index: map[Value]int{}} }

// hashed is a key as dicts compare it: True, 1 and 1.0 are one key.
func hashed(key Value) (Value, bool) {
	switch k := key.(type) {
	case nil, int64, string:
		return k, true
	case bool:
		return integerOf(k), true
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<62 {
			return int64(k), true
		}
		return k, true
	case safe:
		return string(k), true
	}
	return nil, false
}

// Get returns the value of a key.
func (d *Dict) Get(key Value) (Value, bool) {
	if h, ok := hashed(key); ok {
		if i, ok := d.index[h]; ok {
			return d.values[i], true
		}
	}
	return nil, false
}

// Set sets the value of a key, which is a text, a number, a bool or nil.
func (d *Dict) Set(key, value Value) {
	h, ok := hashed(key)
	if !ok {
		fail("%s cannot be a key of a dict", typeName(key))
	}
	if i, ok := d.index[h]; ok {
		d.values[i] = value
		return
	}
	d.index[h] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
}

// Named are the values of the keys that are texts.
func (d *Dict) Named() map[string]Value {
	out := map[string]Value{}
	for i, k := range d.keys {
		if n, ok := k.(string); ok {
			out[n] = d.values[i]
		}
	}
	return out
}

// pairs are the keys with their values.
func (d *Dict) pairs() []Value {
	return numeric.Tabulate(len(d.keys), func(i int) Value { return tuple(d.keys[i], d.values[i]) })
}

// namespace is an object whose attributes a template can set.
type namespace struct{ *Dict }

// undefined is a name or a member that is not there.
type undefined struct{ what string }

// defined fails for an undefined value.
func defined(v Value) {
	if u, ok := v.(undefined); ok {
		fail("%s is undefined", u.what)
	}
}

// safe is a text that the filter safe was applied to: what + adds to it is escaped for HTML.
type safe string

// Function is what a template can call.
type Function struct {
	Name string
	Call func(args []Value) (Value, error)
	call func(in *state, a args) Value // of Jinja's own and of macros, in place of Call
}

// typeName is what Python calls the type of a value.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "a bool"
	case int64:
		return "an int"
	case float64:
		return "a float"
	case string, safe:
		return "a text"
	case *List:
		if v.kind == "" {
			return "a list"
		}
		return "a " + v.kind
	case *Dict:
		return "a dict"
	case undefined:
		return v.what
	}
	return "an object"
}

func truth(v Value) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case safe:
		return v != ""
	case *List:
		return !v.sized() || len(v.Items) > 0
	case *Dict:
		return len(v.keys) > 0
	}
	return true
}

func integerOf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// number returns a number as an int, if it is one, and as a float.
func number(v Value) (i int64, f float64, whole, ok bool) {
	switch v := v.(type) {
	case bool:
		return integerOf(v), float64(integerOf(v)), true, true
	case int64:
		return v, float64(v), true, true
	case float64:
		return 0, v, false, true
	}
	return 0, 0, false, false
}

// plain is a text without the mark of the filter safe.
func plain(v Value) Value {
	if s, ok := v.(safe); ok {
		return string(s)
	}
	return v
}

// equal is Python's ==.
func (in *state) equal(a, b Value, depth int) bool {
	in.step(1)
	in.deep(depth)
	a, b = plain(a), plain(b)
	if ai, af, aw, ok := number(a); ok {
		bi, bf, bw, ok := number(b)
		return ok && (aw && bw && ai == bi || !(aw && bw) && af == bf)
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		return ok && a == b
	case undefined:
		_, ok := b.(undefined)
		return ok
	case *List:
		b, ok := b.(*List)
		if !ok || a.kind != b.kind || len(a.Items) != len(b.Items) || !a.indexed() {
			return ok && a == b
		}
		for i := range a.Items {
			if !in.equal(a.Items[i], b.Items[i], depth+1) {
				return false
			}
		}
		return true
	case *Dict:
		b, ok := b.(*Dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for i, k := range a.keys {
			if v, ok := b.Get(k); !ok || !in.equal(a.values[i], v, depth+1) {
				return false
			}
		}
		return true
	}
	return a == b
}

// compare is negative, zero or positive as a is less than, equal to or above b. Values that Python does not order fail.
func (in *state) compare(a, b Value, depth int) int {
	in.step(1)
	in.deep(depth)
	a, b = plain(a), plain(b)
	ai, af, aw, ok := number(a)
	if bi, bf, bw, too := number(b); ok && too {
		if aw && bw {
			return cmp.Compare(ai, bi)
		}
		switch {
		case af < bf:
			return -1
		case af > bf:
			return 1
		}
		return 0
	}
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b)
		}
	case *List:
		if b, ok := b.(*List); ok && a.kind == b.kind && a.indexed() && a.kind != rangeKind {
			for i := range min(len(a.Items), len(b.Items)) {
				if !in.equal(a.Items[i], b.Items[i], depth+1) {
					return in.compare(a.Items[i], b.Items[i], depth+1)
				}
			}
			return len(a.Items) - len(b.Items)
		}
	}
	fail("%s and %s have no order", typeName(a), typeName(b))
	return 0
}

// items are what a loop over a value goes through.
func (in *state) items(v Value) (items []Value) {
	switch v := v.(type) {
	case *List:
		items = v.Items
		if !v.sized() {
			if v.used {
				items = nil
			}
			v.used = true
		}
	case *Dict:
		items = v.keys
	case string:
		for _, r := range v {
			items = append(items, string(r))
		}
		in.made(16 * len(items))
	case undefined:
	default:
		fail("%s cannot be gone through", typeName(v))
	}
	in.step(len(items))
	return items
}

// length is Python's len.
func length(v Value) int64 {
	switch v := plain(v).(type) {
	case string:
		return int64(utf8.RuneCountInString(v))
	case *Dict:
		return int64(len(v.keys))
	case undefined:
		return 0
	case *List:
		if v.sized() {
			return int64(len(v.Items))
		}
	}
	fail("%s has no length", typeName(v))
	return 0
}

// contains is Python's in.
func (in *state) contains(whole, part Value) bool {
	switch w := plain(whole).(type) {
	case string:
		p, ok := plain(part).(string)
		if !ok {
			fail("a text holds texts only, not %s", typeName(part))
		}
		in.step(len(w) / 64)
		return strings.Contains(w, p)
	case *Dict:
		if _, ok := hashed(part); !ok {
			fail("%s cannot be a key of a dict", typeName(part))
		}
		_, ok := w.Get(part)
		return ok
	default:
		return slices.ContainsFunc(in.items(whole), func(v Value) bool { return in.equal(v, part, 0) })
	}
}

// quoted is a text of a template in an error.
func quoted(s string) string { return strconv.Quote(s) }
