package jinja

import (
	"slices"
	"strconv"
)

// postfixed reads members and calls behind a value, and if they are allowed, filters, tests and calls behind these.
func (p *parser) postfixed(e expr, filters bool) expr {
	filtered := false
	for n := 0; ; n++ {
		p.bounded(n)
		switch t := p.now(); {
		case !filtered && (t.is(".") || t.is("[")):
			e = p.member(e)
		case t.is("("):
			e = p.call(e)
		case filters && t.is("|"):
			p.at++
			of, do := e, p.filter()
			e = func(in *state, s *scope) Value { return do(in, s, of(in, s)) }
			filtered = true
		case filters && t.named("is"):
			p.at++
			e = p.test(e)
			filtered = true
		default:
			return e
		}
	}
}

// dotted reads the name of a filter or a test, which may have dots.
func (p *parser) dotted(what string, known func(n string) bool) string {
	t := p.wantKind(name, what)
	for p.skip(".") {
		t.text += "." + p.wantKind(name, what).text
	}
	if !p.soft && !known(t.text) {
		p.unknown = append(p.unknown, t)
	}
	return t.text
}

// member reads .name, .0, [key] or [from:to:step].
func (p *parser) member(of expr) expr {
	if p.skip(".") {
		t := p.next()
		switch t.kind {
		case name:
			return func(in *state, s *scope) Value { return in.attribute(of(in, s), t.text) }
		case integer:
			i, err := strconv.ParseInt(t.text, 10, 64)
			if err == nil {
				return func(in *state, s *scope) Value { return in.item(of(in, s), i) }
			}
		}
		failAt(t.line, "%s stands where the name of a member must", t)
	}
	p.want("[")
	var bounds [3]expr
	n, slice := 0, false
	for ; !p.now().is("]"); n++ {
		if n == 3 {
			p.fail("a slice has at most three parts")
		}
		if !p.now().is(":") {
			bounds[n] = p.expression()
		}
		if p.now().is(",") {
			p.fail("an index of several values is not supported")
		}
		if !p.skip(":") {
			break
		}
		slice = true
	}
	p.want("]")
	if slice {
		return func(in *state, s *scope) Value {
			v := of(in, s)
			var at [3]Value
			for i, b := range bounds {
				if b != nil {
					at[i] = b(in, s)
				}
			}
			return in.slice(v, at)
		}
	}
	if bounds[0] == nil {
		p.fail("an index is empty")
	}
	return func(in *state, s *scope) Value { v := of(in, s); return in.item(v, bounds[0](in, s)) }
}

// arguments are a call's arguments, as they are written.
type arguments struct {
	list        []expr
	names       []string // of the last ones, which have names
	spread      expr     // *list, or nil
	spreadNamed expr     // **dict, or nil
}

func (p *parser) arguments() (a arguments) {
	p.want("(")
	for n := 0; !p.skip(")"); n++ {
		if n > 0 {
			p.want(",")
			if p.skip(")") {
				break
			}
		}
		switch {
		case p.skip("**"):
			a.spreadNamed = p.expression()
		case p.skip("*"):
			a.spread = p.expression()
		case p.now().kind == name && p.tokens[p.at+1].is("="):
			a.names = append(a.names, p.next().text)
			p.at++
			a.list = append(a.list, p.expression())
		case len(a.names) > 0 || a.spreadNamed != nil:
			p.fail("an argument without a name follows one with a name")
		default:
			a.list = append(a.list, p.expression())
		}
	}
	return a
}

// args are the arguments of a call.
type args struct {
	list  []Value
	named *Dict
}

func (a arguments) values(in *state, s *scope) args {
	list := all(a.list, in, s)
	unnamed := len(list) - len(a.names)
	out := args{list[:unnamed:unnamed], NewDict()}
	for i, n := range a.names {
		if _, twice := out.named.Get(n); twice {
			fail("the argument %s is given twice", n)
		}
		out.named.Set(n, list[unnamed+i])
	}
	if a.spread != nil {
		out.list = append(out.list, in.items(a.spread(in, s))...)
	}
	if a.spreadNamed != nil {
		d, ok := a.spreadNamed(in, s).(*Dict)
		if !ok {
			fail("** is followed by no dict")
		}
		for i, k := range d.keys {
			if _, twice := out.named.Get(k); twice {
				fail("the argument %s is given twice", in.str(k))
			}
			out.named.Set(k, d.values[i])
		}
	}
	return out
}

// given returns the arguments of a function with those parameters; absent ones are nil, and has says which are there.
func (a args) given(function string, parameters ...string) (of []Value, has []bool) {
	if len(a.list) > len(parameters) {
		fail("%s takes at most %d arguments, and gets %d", function, len(parameters), len(a.list))
	}
	of, has = make([]Value, len(parameters)), make([]bool, len(parameters))
	for i, v := range a.list {
		of[i], has[i] = v, true
	}
	for i, k := range a.named.keys {
		at := slices.IndexFunc(parameters, func(n string) bool { return n == k })
		if at < 0 || has[at] {
			fail("%s takes no argument %v, or has it already", function, k)
		}
		of[at], has[at] = a.named.values[i], true
	}
	return of, has
}

func (p *parser) call(of expr) expr {
	a := p.arguments()
	p.last = lastCall{of, a, p.at}
	return func(in *state, s *scope) Value {
		f := of(in, s)
		return in.call(f, a.values(in, s))
	}
}

// lastCall is the call that ended before a token.
type lastCall struct {
	of     expr
	a      arguments
	before int
}

func (p *parser) filter() func(in *state, s *scope, v Value) Value {
	n := p.dotted("a filter", func(n string) bool { return filters[n] != nil || slices.Contains(otherFilters, n) })
	var a arguments
	if p.now().is("(") {
		a = p.arguments()
	}
	return func(in *state, s *scope, v Value) Value { return in.filtered(n, v, a.values(in, s)) }
}

// test reads what follows is.
func (p *parser) test(of expr) expr {
	negative := p.skipName("not")
	n := p.dotted("a test", func(n string) bool {
		return kinds[n] != nil || tests[n] != nil || slices.Contains(otherTests, n)
	})
	var a arguments
	switch now := p.now(); {
	case now.is("("):
		a = p.arguments()
	case now.named("is"):
		p.fail("tests cannot follow each other with is")
	case now.kind == name && !now.named("else", "or", "and"), now.kind == text, now.kind == integer,
		now.kind == decimal, now.is("["), now.is("{"):
		a.list = []expr{p.postfixed(p.primary(), false)}
	}
	return func(in *state, s *scope) Value {
		v := of(in, s)
		return in.tested(n, v, a.values(in, s)) != negative
	}
}
