package jinja

import (
	"slices"
	"strconv"
	"strings"

	"popri/internal/numeric"
)

// What Jinja has and this package has not: it fails when it is used.
var (
	otherFilters = []string{"batch", "center", "filesizeformat", "forceescape", "groupby", "pprint", "random", "slice",
		"striptags", "title", "truncate", "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr"}
	otherTests = []string{"escaped", "filter", "test"}
)

// filtered applies a filter. What Jinja has and this package has not fails when it is used, as a name that Jinja does
// not know does within a condition.
func (in *state) filtered(n string, v Value, a args) Value {
	in.step(1)
	f, ok := filters[n]
	if !ok {
		fail("the filter %s is unknown or not supported", n)
	}
	return f(in, v, a)
}

// filters are Jinja's, with transformers' tojson.
var filters map[string]func(in *state, v Value, a args) Value

func init() {
	for of, names := range map[string][]string{"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"}, "<": {"<", "lt", "lessthan"},
		"<=": {"<=", "le"}, ">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"}} {
		for _, n := range names {
			tests[n] = comparisons[of]
		}
	}
	filters = map[string]func(in *state, v Value, a args) Value{
		"abs": absolute, "attr": attr, "capitalize": textFilter("capitalize", capitalized), "count": lengthFilter,
		"d": defaultFilter, "default": defaultFilter, "dictsort": dictSort, "e": escape, "escape": escape,
		"first": oneOf("first", 0), "float": toFloat, "format": formatFilter, "indent": indent, "int": toInt,
		"items": itemsFilter, "join": joinFilter, "last": oneOf("last", -1), "length": lengthFilter, "list": listFilter,
		"lower": textFilter("lower", lower), "map": mapFilter, "max": extreme("max", 1), "min": extreme("min", -1),
		"reject": selecting("reject", false, false), "rejectattr": selecting("rejectattr", true, false),
		"replace": replaceFilter, "reverse": reverse, "round": round, "safe": safeFilter,
		"select": selecting("select", false, true), "selectattr": selecting("selectattr", true, true), "sort": sortFilter,
		"string": stringFilter, "sum": sum, "tojson": toJSON, "trim": trim, "unique": unique,
		"upper": textFilter("upper", upper),
	}
}

func textFilter(n string, change func(s string) string) func(in *state, v Value, a args) Value {
	return func(in *state, v Value, a args) Value {
		a.given(n)
		s := in.soft(n, v)
		in.made(len(s))
		return change(s)
	}
}

// soft is a value as a text; what the filter safe marked is refused.
func (in *state) soft(n string, v Value) string {
	if _, ok := v.(safe); ok {
		fail("the filter %s behind safe is not supported", n)
	}
	return in.str(v)
}

func absolute(_ *state, v Value, a args) Value {
	a.given("abs")
	_, f, _, ok := number(v)
	if !ok {
		fail("%s has no absolute value", typeName(v))
	}
	if f < 0 {
		return signed("-", v)
	}
	return signed("+", v)
}

func attr(in *state, v Value, a args) Value {
	of, _ := a.given("attr", "name")
	defined(v)
	if m, ok := in.own(v, textOf("attr", of[0])); ok {
		return m
	}
	return undefined{"the attribute " + quoted(in.str(of[0])) + " of " + typeName(v)}
}

func lengthFilter(_ *state, v Value, a args) Value { a.given("length"); return length(v) }

func defaultFilter(_ *state, v Value, a args) Value {
	of, has := a.given("default", "default_value", "boolean")
	if !has[0] {
		of[0] = ""
	}
	if isOne[undefined](v) || truth(of[1]) && !truth(v) {
		return of[0]
	}
	return v
}

func escape(in *state, v Value, a args) Value {
	a.given("escape")
	if isOne[safe](v) {
		return v
	}
	s := escaper.Replace(in.str(v))
	in.made(len(s))
	return safe(s)
}

func safeFilter(in *state, v Value, a args) Value { a.given("safe"); return safe(in.str(v)) }

func stringFilter(in *state, v Value, a args) Value {
	a.given("string")
	if isOne[safe](v) {
		return v
	}
	return in.str(v)
}

// oneOf is the filter first or last.
func oneOf(n string, at int) func(in *state, v Value, a args) Value {
	return func(in *state, v Value, a args) Value {
		a.given(n)
		if l, ok := v.(*List); ok && !l.sized() {
			if at < 0 {
				fail("%s has no last element", typeName(v))
			}
			if l.used || len(l.Items) == 0 {
				return undefined{"the first element of nothing"}
			}
			first := l.Items[0]
			l.Items = l.Items[1:]
			return first
		}
		items := in.items(plain(v))
		if len(items) == 0 {
			return undefined{"the " + n + " element of nothing"}
		}
		return items[(len(items)+at)%len(items)]
	}
}

func formatFilter(in *state, v Value, a args) Value {
	if len(a.list) > 0 && len(a.named.keys) > 0 {
		fail("format takes values with names or without, not both")
	}
	if len(a.named.keys) > 0 {
		return in.format(in.soft("format", v), a.named)
	}
	return in.format(in.soft("format", v), tuple(a.list...))
}

func indent(in *state, v Value, a args) Value {
	of, has := a.given("indent", "width", "first", "blank")
	by := "    "
	if s, ok := of[0].(string); ok {
		by = s
	} else if has[0] {
		width := wholeOf("indent", of[0])
		in.made(max(0, width))
		by = strings.Repeat(" ", max(0, width))
	}
	if !isOne[string](v) {
		fail("indent takes a text, not %s", typeName(v))
	}
	list := lines(v.(string)+"\n", false)
	in.made(len(list) * (len(by) + 1))
	for i, line := range list {
		if i > 0 && (line != "" || truth(of[2])) || i == 0 && truth(of[1]) {
			list[i] = by + line
		}
	}
	text := strings.Join(list, "\n")
	in.made(len(text))
	return text
}

func itemsFilter(in *state, v Value, a args) Value {
	a.given("items")
	d, ok := v.(*Dict)
	if !ok && !isOne[undefined](v) {
		fail("items takes a dict, not %s", typeName(v))
	}
	if !ok {
		return generator(nil)
	}
	in.made(64 * len(d.keys))
	return generator(d.pairs())
}

func listFilter(in *state, v Value, a args) Value {
	a.given("list")
	items := in.items(plain(v))
	in.made(16 * len(items))
	return NewList(slices.Clone(items)...)
}

// getter is the item of a path of names and numbers with dots, as map(attribute=…) has it.
func (in *state) getter(path Value) func(v Value) Value {
	var parts []Value
	switch p := path.(type) {
	case nil:
	case int64:
		parts = []Value{p}
	default:
		for _, part := range strings.Split(textOf("attribute", path), ".") {
			if i, err := strconv.ParseInt(part, 10, 64); err == nil {
				parts = append(parts, i)
			} else {
				parts = append(parts, part)
			}
		}
	}
	return func(v Value) Value {
		for _, part := range parts {
			v = in.item(v, part)
		}
		return v
	}
}

func joinFilter(in *state, v Value, a args) Value {
	of, has := a.given("join", "d", "attribute")
	if !has[0] {
		of[0] = ""
	}
	get := in.getter(of[1])
	return in.join(numeric.Map(in.items(plain(v)), get), in.str(of[0]))
}

func mapFilter(in *state, v Value, a args) Value {
	if !truth(v) { // Jinja looks no further
		return generator(nil)
	}
	attribute, by := a.named.Get("attribute")
	var do func(x Value) Value
	if by && len(a.list) == 0 {
		get := in.getter(attribute)
		otherwise, has := a.named.Get("default")
		if len(a.named.keys) > 2 || len(a.named.keys) == 2 && !has {
			fail("map takes attribute and default")
		}
		do = func(x Value) Value {
			if x = get(x); has && isOne[undefined](x) {
				return otherwise
			}
			return x
		}
	} else {
		if len(a.list) == 0 {
			fail("map needs a filter or attribute=")
		}
		n, rest := textOf("map", a.list[0]), args{a.list[1:], a.named}
		do = func(x Value) Value { return in.filtered(n, x, rest) }
	}
	out := numeric.Map(in.items(plain(v)), do)
	in.made(16 * len(out))
	return generator(out)
}

// selecting is select, reject, selectattr or rejectattr.
func selecting(n string, attribute, keep bool) func(in *state, v Value, a args) Value {
	return func(in *state, v Value, a args) Value {
		if !truth(v) { // Jinja looks no further
			return generator(nil)
		}
		get := in.getter(nil)
		if attribute {
			if len(a.list) == 0 {
				fail("%s needs the name of an attribute", n)
			}
			get = in.getter(a.list[0])
			a.list = a.list[1:]
		}
		holds := truth
		if len(a.list) > 0 {
			test, rest := textOf(n, a.list[0]), args{a.list[1:], a.named}
			holds = func(x Value) bool { return in.tested(test, x, rest) }
		}
		var out []Value
		for _, x := range in.items(plain(v)) {
			if holds(get(x)) == keep {
				out = append(out, x)
			}
		}
		in.made(16 * len(out))
		return generator(out)
	}
}

func replaceFilter(in *state, v Value, a args) Value {
	of, has := a.given("replace", "old", "new", "count")
	if !has[0] || !has[1] {
		fail("replace needs two texts")
	}
	count := -1
	if of[2] != nil {
		count = wholeOf("replace", of[2])
	}
	return in.replaced(in.soft("replace", v), in.str(of[0]), in.str(of[1]), count)
}

func reverse(in *state, v Value, a args) Value {
	a.given("reverse")
	if s, ok := plain(v).(string); ok {
		in.soft("reverse", v)
		r := []rune(s)
		slices.Reverse(r)
		in.made(4 * len(r))
		return string(r)
	}
	l, ok := v.(*List)
	items := slices.Clone(in.items(v))
	slices.Reverse(items)
	in.made(16 * len(items))
	if ok && !l.sized() {
		return NewList(items...)
	}
	return generator(items)
}

// folded is a text in small letters, as filters compare texts unless they are told to mind the case.
func folded(v Value, caseSensitive Value) Value {
	if s, ok := plain(v).(string); ok && !truth(caseSensitive) {
		return lower(s)
	}
	return v
}

// sorted are items in the order of their keys; equal ones stay as they are.
func (in *state) sorted(items []Value, key func(v Value) Value, down bool) []Value {
	type keyed struct{ key, item Value }
	list := numeric.Map(items, func(v Value) keyed { return keyed{key(v), v} })
	slices.SortStableFunc(list, func(a, b keyed) int {
		if down {
			return in.compare(b.key, a.key, 0)
		}
		return in.compare(a.key, b.key, 0)
	})
	out := numeric.Map(list, func(k keyed) Value { return k.item })
	in.made(64 * len(out))
	return out
}

func sortFilter(in *state, v Value, a args) Value {
	of, _ := a.given("sort", "reverse", "case_sensitive", "attribute")
	if s, ok := of[2].(string); ok && strings.Contains(s, ",") {
		fail("sort by several attributes is not supported")
	}
	get := in.getter(of[2])
	return NewList(in.sorted(in.items(plain(v)), func(v Value) Value { return folded(get(v), of[1]) }, truth(of[0]))...)
}

func dictSort(in *state, v Value, a args) Value {
	of, has := a.given("dictsort", "case_sensitive", "by", "reverse")
	at := int64(0)
	if has[1] {
		switch of[1] {
		case "key":
		case "value":
			at = 1
		default:
			fail("dictsort sorts by key or by value")
		}
	}
	d, ok := v.(*Dict)
	if !ok {
		fail("dictsort takes a dict, not %s", typeName(v))
	}
	return NewList(in.sorted(d.pairs(), func(v Value) Value { return folded(v.(*List).Items[at], of[0]) }, truth(of[2]))...)
}

// extreme is the filter max (1) or min (-1).
func extreme(n string, sign int) func(in *state, v Value, a args) Value {
	return func(in *state, v Value, a args) Value {
		of, _ := a.given(n, "case_sensitive", "attribute")
		get := in.getter(of[1])
		best, items := 0, in.items(plain(v))
		if len(items) == 0 {
			return undefined{"the " + n + " of nothing"}
		}
		for i := range items {
			if sign*in.compare(folded(get(items[i]), of[0]), folded(get(items[best]), of[0]), 0) > 0 {
				best = i
			}
		}
		return items[best]
	}
}

func unique(in *state, v Value, a args) Value {
	of, _ := a.given("unique", "case_sensitive", "attribute")
	get := in.getter(of[1])
	seen := NewDict()
	var out []Value
	for _, x := range in.items(plain(v)) {
		key := folded(get(x), of[0])
		if _, ok := hashed(key); !ok {
			fail("unique of %s is not supported", typeName(key))
		}
		if _, twice := seen.Get(key); !twice {
			seen.Set(key, nil)
			out = append(out, x)
		}
	}
	in.made(64 * len(out))
	return generator(out)
}

func sum(in *state, v Value, a args) Value {
	of, has := a.given("sum", "attribute", "start")
	total := Value(int64(0))
	if has[1] {
		total = of[1]
	}
	get := in.getter(of[0])
	for _, x := range in.items(plain(v)) {
		if isOne[string](x) {
			fail("sum takes no texts")
		}
		total = add(in, total, get(x))
	}
	return total
}

func trim(in *state, v Value, a args) Value {
	of, _ := a.given("trim", "chars")
	return stripping("trim", true, true)(in, in.soft("trim", v), args{of, NewDict()})
}
