// Package jinja carries out templates of Jinja 2 as chat templates use it, with Python's values, and with the options
// and the additions of transformers' apply_chat_template: trim_blocks, lstrip_blocks, break and continue, the filter
// tojson, and the tag generation.
//
// What a template writes here it writes in Jinja, to the byte. Whatever Jinja has and this package has not, and whatever
// Jinja's sandbox refuses, is an error with the line of the template; files are never read. A template comes with a
// model, from anywhere, so steps, depth and memory are bounded.
//
// No library is used: gonja 2.9.1 writes 211 of the 1009 templates of testdata/golden/templates otherwise, without an
// error (None, whole numbers, the order of fields, spaces behind a loop).
//
// Sources: jinja.palletsprojects.com/en/stable/templates, docs.python.org/3/library/stdtypes.
package jinja

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The bounds of a rendering: statements and values that are gone through, bytes of all texts and lists that are made on
// the way, and macros in each other. A conversation of a megabyte in a template of a published model needs 1 % of them.
const (
	maxSteps = 5_000_000
	maxBytes = 128 << 20
)

// failure is an error on its way to [Parse] or [Template.Render].
type failure struct {
	err  error
	line int // of the template, 0 if not known
}

func failAt(line int, format string, v ...any) { panic(failure{fmt.Errorf(format, v...), line}) }
func fail(format string, v ...any)             { failAt(0, format, v...) }

// caught makes an error of a failure.
func caught(err *error, line func() int) {
	switch r := recover().(type) {
	case nil:
	case failure:
		if r.line == 0 {
			r.line = line()
		}
		*err = fmt.Errorf("line %d: %w", r.line, r.err)
	default:
		panic(r)
	}
}

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	body  []stmt
	frame *frame
}

// Parse reads a template.
func Parse(source string) (t *Template, err error) {
	defer caught(&err, func() int { return 1 })
	if len(source) > maxSource {
		return nil, fmt.Errorf("the template has %d bytes, must have at most %d", len(source), maxSource)
	}
	p := &parser{tokens: lex(source)}
	var body []stmt
	f := p.framed(nil, func() { body, _ = p.body() })
	if len(p.unknown) > 0 {
		failAt(p.unknown[0].line, "no filter or test is named %s", quoted(p.unknown[0].text))
	}
	p.settle()
	return &Template{body, f}, nil
}

// Render writes the template's text for values of the given names, which stand beside Jinja's own functions.
func (t *Template) Render(values map[string]Value) (text string, err error) {
	in := &state{out: &strings.Builder{}}
	defer caught(&err, func() int { return in.line })
	top := newScope(nil)
	maps.Copy(top.vars, values)
	run(t.body, in, t.frame.scope(top))
	return in.out.String(), nil
}

// state is what a rendering has come to.
type state struct {
	out                 *strings.Builder
	line                int
	steps, bytes, depth int
}

func (in *state) step(n int) {
	if in.steps += n; in.steps > maxSteps {
		fail("the template takes more than %d steps", maxSteps)
	}
}

// made counts the bytes of a text or a list.
func (in *state) made(n int) {
	if in.bytes += n; in.bytes > maxBytes {
		fail("the template makes more than %d MiB of texts and lists", maxBytes>>20)
	}
}

// deep bounds how deep lists stand in each other.
func (in *state) deep(depth int) {
	if depth > maxDepth {
		fail("more than %d lists in each other", maxDepth)
	}
}

func (in *state) write(s string) {
	in.made(len(s))
	in.out.WriteString(s)
}

// captured is what statements write.
func (in *state) captured(list []stmt, s *scope) string {
	return in.written(func() { run(list, in, s) })
}

// written is what a part writes that macros or loops may repeat in themselves.
func (in *state) written(part func()) string {
	if in.depth++; in.depth > maxDepth {
		fail("more than %d macros or loops in each other", maxDepth)
	}
	outer := in.out
	in.out = &strings.Builder{}
	part()
	text := in.out.String()
	in.out = outer
	in.depth--
	return text
}

// scope has the names of a block, and sees the names of the blocks around it.
type scope struct {
	vars  map[string]Value
	outer *scope
}

func newScope(outer *scope) *scope { return &scope{map[string]Value{}, outer} }

func (in *state) lookup(s *scope, n string) Value {
	for at := s; at != nil; at = at.outer {
		if v, ok := at.vars[n]; ok {
			return v
		}
	}
	if f, ok := functions[n]; ok {
		return f
	}
	return undefined{quoted(n)}
}

// macro is a macro as it is written.
type macro struct {
	name     string
	names    []string // of parameters
	defaults []expr   // nil for a parameter without one
	body     []stmt
	used     map[string]bool // names in the body
	frame    *frame
}

// in is the macro as a function, which sees the names around it.
func (m *macro) in(around *scope) *Function {
	return &Function{Name: m.name, call: func(in *state, a args) Value {
		s := m.frame.scope(around)
		for i, n := range m.names {
			v, named := a.named.Get(n)
			switch {
			case i < len(a.list) && named:
				fail("the macro %s gets the argument %s twice", m.name, n)
			case i < len(a.list):
				s.vars[n] = a.list[i]
			case named:
				s.vars[n] = v
			case m.defaults[i] != nil:
				s.vars[n] = m.defaults[i](in, s)
			default:
				s.vars[n] = undefined{"the parameter " + quoted(n)}
			}
		}
		m.further(s, a)
		return in.captured(m.body, s)
	}}
}

// further sets what a macro gets besides its parameters: varargs, kwargs and caller, if its body refers to them.
func (m *macro) further(s *scope, a args) {
	more := NewDict()
	for i, k := range a.named.keys {
		n := k.(string)
		if !(n == "caller" && m.used["caller"]) && !slices.Contains(m.names, n) {
			more.Set(k, a.named.values[i])
		}
	}
	if m.used["caller"] {
		s.vars["caller"] = Value(undefined{`no caller is defined: "caller"`})
		if c, ok := a.named.Get("caller"); ok {
			s.vars["caller"] = c
		}
	}
	if m.used["kwargs"] {
		s.vars["kwargs"] = more
	} else if len(more.keys) > 0 {
		fail("the macro %s takes no argument %v", m.name, more.keys[0])
	}
	rest := a.list[min(len(m.names), len(a.list)):]
	if m.used["varargs"] {
		s.vars["varargs"] = tuple(rest...)
	} else if len(rest) > 0 {
		fail("the macro %s takes at most %d arguments", m.name, len(m.names))
	}
}

// call calls a function.
func (in *state) call(f Value, a args) Value {
	in.step(1)
	switch f := f.(type) {
	case *Function:
		if f.call != nil {
			return f.call(in, a)
		}
		if len(a.named.keys) > 0 {
			fail("%s takes no argument %v", f.Name, a.named.keys[0])
		}
		v, err := f.Call(a.list)
		if err != nil {
			panic(failure{err: err})
		}
		return v
	case *loopState:
		return f.again(in, a)
	}
	defined(f)
	fail("%s cannot be called", typeName(f))
	return nil
}

// looping is a loop as it is written.
type looping struct {
	set               target
	when              expr // nil for all
	body, otherwise   []stmt
	frame, otherFrame *frame
	recursive         bool
}

// loopState is the variable loop.
type loopState struct {
	of      *looping
	around  *scope
	items   []Value
	at      int
	depth   int
	changed Value // the arguments of the last call of changed, nil before it
}

func (l *looping) run(in *state, s *scope, over Value, depth int) flow {
	items := in.items(over)
	if l.when != nil {
		var kept []Value
		for _, v := range items {
			inner := newScope(s)
			inner.vars["loop"] = undefined{`"loop" in the condition of a loop`}
			if l.set(in, inner, v); truth(l.when(in, inner)) {
				kept = append(kept, v)
			}
		}
		items = kept
	}
	state := &loopState{of: l, around: s, items: items, depth: depth}
	whole := false // whether the body came to its end for an item, without break or continue
	for i, v := range items {
		in.step(1)
		state.at = i
		inner := l.frame.scope(s)
		inner.vars["loop"] = state
		l.set(in, inner, v)
		to := run(l.body, in, inner)
		if whole = whole || to == onward; to == ended {
			break
		}
	}
	if !whole {
		return run(l.otherwise, in, l.otherFrame.scope(s))
	}
	return onward
}

// again runs a recursive loop over other items, and returns what it writes.
func (l *loopState) again(in *state, a args) Value {
	if !l.of.recursive {
		fail("the loop is not recursive")
	}
	of, _ := a.given("loop", "items")
	return in.written(func() { l.of.run(in, l.around, of[0], l.depth+1) })
}

// attribute is a member of loop.
func (l *loopState) attribute(in *state, n string) Value {
	count, at := int64(len(l.items)), int64(l.at)
	neighbour := func(i int, what string) Value {
		if i < 0 || i >= len(l.items) {
			return undefined{"the " + what + " item of the loop"}
		}
		return l.items[i]
	}
	switch n {
	case "index":
		return at + 1
	case "index0":
		return at
	case "revindex":
		return count - at
	case "revindex0":
		return count - at - 1
	case "first":
		return at == 0
	case "last":
		return at == count-1
	case "length":
		return count
	case "depth":
		return int64(l.depth + 1)
	case "depth0":
		return int64(l.depth)
	case "previtem":
		return neighbour(l.at-1, "previous")
	case "nextitem":
		return neighbour(l.at+1, "next")
	case "cycle":
		return &Function{Name: n, call: func(_ *state, a args) Value {
			if len(a.list) == 0 {
				fail("cycle has no values")
			}
			return a.list[l.at%len(a.list)]
		}}
	case "changed":
		return &Function{Name: n, call: func(in *state, a args) Value {
			was := l.changed
			l.changed = tuple(a.list...)
			return was == nil || !in.equal(was, l.changed, 0)
		}}
	}
	return undefined{"the member " + quoted(n) + " of loop"}
}

// functions are Jinja's own.
var functions = map[string]*Function{
	"range":     {Name: "range", call: func(in *state, a args) Value { return in.rangeOf(a) }},
	"dict":      {Name: "dict", call: func(in *state, a args) Value { return dictOf(a) }},
	"namespace": {Name: "namespace", call: func(in *state, a args) Value { return namespace{dictOf(a)} }},
	"joiner":    absent("joiner"), "lipsum": absent("lipsum"), "cycler": absent("cycler"), "self": absent("self"),
}

// absent is a function that Jinja has.
func absent(n string) *Function {
	return &Function{Name: n, Call: func([]Value) (Value, error) {
		return nil, errors.New("the function " + n + " is not supported")
	}}
}

// rangeOf is Python's range, of at most 100 000 numbers as in Jinja's sandbox.
func (in *state) rangeOf(a args) Value {
	bounds := []int64{0, 0, 1}
	if len(a.list) < 1 || len(a.list) > 3 || len(a.named.keys) > 0 {
		fail("range takes one to three numbers")
	}
	for i, v := range a.list {
		n, _, whole, ok := number(v)
		if !ok || !whole {
			fail("range takes whole numbers, not %s", typeName(v))
		}
		bounds[i] = n
	}
	if len(a.list) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	from, to, by := bounds[0], bounds[1], bounds[2]
	if by == 0 {
		fail("the step of range is 0")
	}
	l := &List{kind: rangeKind}
	for i := from; by > 0 && i < to || by < 0 && i > to; i += by {
		if len(l.Items) == 100_000 {
			fail("range has more than 100000 numbers")
		}
		l.Items = append(l.Items, i)
		if next := i + by; (by > 0) != (next > i) {
			break
		}
	}
	in.made(16 * len(l.Items))
	return l
}

func dictOf(a args) *Dict {
	d := NewDict()
	for _, v := range a.list {
		of, ok := v.(*Dict)
		if !ok || len(a.list) > 1 {
			fail("a dict is made of one other dict and of named values")
		}
		for i, k := range of.keys {
			d.Set(k, of.values[i])
		}
	}
	for i, k := range a.named.keys {
		d.Set(k, a.named.values[i])
	}
	return d
}
