package jinja

import "slices"

func (p *parser) statement(tag token) stmt {
	switch tag.text {
	case "if":
		return p.condition()
	case "for":
		return p.loop()
	case "set":
		return p.set()
	case "macro":
		return p.macro()
	case "call":
		return p.callBlock()
	case "filter":
		return p.filterBlock()
	case "with":
		return p.with()
	case "generation": // transformers' tags around what a model writes; they change nothing in the text
		inner, f := p.inMacro(nil, "endgeneration")
		return func(in *state, s *scope) flow {
			in.write(in.captured(inner, f.scope(s)))
			return onward
		}
	case "break", "continue":
		if p.loops == 0 {
			failAt(tag.line, "%s stands outside of a loop", tag.text)
		}
		p.wantKind(endBlock, `"%}"`)
		to := map[string]flow{"break": ended, "continue": skipped}[tag.text]
		return func(*state, *scope) flow { return to }
	}
	failAt(tag.line, "the statement %q is not supported", tag.text)
	return nil
}

func run(list []stmt, in *state, s *scope) flow {
	for _, x := range list {
		if f := x(in, s); f != onward {
			return f
		}
	}
	return onward
}

func (p *parser) condition() stmt {
	type branch struct {
		when expr // nil of else
		then []stmt
	}
	var branches []branch
	soft := p.soft
	p.soft = true
	defer func() { p.soft = soft }()
	ending := "if"
	read := func(until ...string) symbols {
		var b branch
		if ending != "else" {
			b.when = p.tuple(false)
		}
		p.closed()
		after := p.branch(func() { b.then, ending = p.body(until...) })
		branches = append(branches, b)
		return after
	}
	first := read("elif", "else", "endif")
	further := p.branch(func() {
		for ending == "elif" {
			one := read("elif", "else", "endif")
			p.frame.merge(one, p.frame.clone(), p.frame.clone())
		}
	})
	last := p.frame.clone()
	if ending == "else" {
		last = read("endif")
	}
	p.frame.merge(first, further, last)
	p.closed()
	return func(in *state, s *scope) flow {
		for _, b := range branches {
			if b.when == nil || truth(b.when(in, s)) {
				return run(b.then, in, s)
			}
		}
		return onward
	}
}

// target gives names to a value.
type target func(in *state, s *scope, v Value)

// target reads names, or a list of them, and returns them, too.
func (p *parser) target() (set target, names []string) {
	defer p.nested()()
	one := func() target {
		if p.skip("(") {
			t, inner := p.target()
			names = append(names, inner...)
			p.want(")")
			return t
		}
		n := p.wantKind(name, "a name").text
		if _, ok := constants[n]; ok {
			p.fail("%s cannot be set", n)
		}
		names = append(names, n)
		return func(_ *state, s *scope, v Value) { s.vars[n] = v }
	}
	list := []target{one()}
	if !p.now().is(",") {
		return list[0], names
	}
	for p.skip(",") && (p.now().kind == name && !p.now().named("in") || p.now().is("(")) {
		list = append(list, one())
	}
	return func(in *state, s *scope, v Value) {
		items := in.items(v)
		if len(items) != len(list) {
			fail("%d values are set to %d names", len(items), len(list))
		}
		for i, set := range list {
			set(in, s, items[i])
		}
	}, names
}

func (p *parser) loop() stmt {
	set, names := p.target()
	if slices.Contains(names, "loop") {
		p.fail("loop cannot be set by a loop")
	}
	if !p.skipName("in") {
		p.fail(`%s stands where "in" must`, p.now())
	}
	over := p.tuple(false)
	l := &looping{set: set}
	if p.skipName("if") {
		p.framed(names, func() { l.when = p.expression() })
	}
	l.recursive = p.skipName("recursive")
	p.closed()
	soft := p.soft
	p.soft = false
	defer func() { p.soft = soft }()
	ending := ""
	p.loops++
	l.frame = p.framed(append(names, "loop"), func() { l.body, ending = p.body("endfor", "else") })
	p.loops--
	l.otherFrame = &frame{}
	if ending == "else" {
		p.closed()
		l.otherFrame = p.framed(nil, func() { l.otherwise, _ = p.body("endfor") })
	}
	p.closed()
	return func(in *state, s *scope) flow { return l.run(in, s, over(in, s), 0) }
}

func (p *parser) set() stmt {
	if p.now().kind == name && p.tokens[p.at+1].is(".") { // an attribute of a namespace
		of, member := p.load(p.next().text), ""
		p.want(".")
		member = p.wantKind(name, "a name").text
		return p.assigned(nil, func(in *state, s *scope, v Value) {
			n, ok := of(in, s).(namespace)
			if !ok {
				fail("the attribute %s can be set in a namespace alone", member)
			}
			n.Set(member, v)
		})
	}
	to, names := p.target()
	return p.assigned(names, to)
}

// assigned reads what a target is set to: a value, or all that a block writes.
func (p *parser) assigned(names []string, to target) stmt {
	if p.skip("=") {
		e := p.tuple(true)
		p.wantKind(endBlock, `"%}"`)
		p.stores(names...)
		return func(in *state, s *scope) flow { to(in, s, e(in, s)); return onward }
	}
	filtered := p.filters()
	p.stores(names...)
	inner, f := p.inMacro(nil, "endset")
	return func(in *state, s *scope) flow {
		to(in, s, filtered(in, s, in.captured(inner, f.scope(s))))
		return onward
	}
}

// filters reads filters that follow each other.
func (p *parser) filters() func(in *state, s *scope, v Value) Value {
	var list []func(in *state, s *scope, v Value) Value
	for p.skip("|") {
		list = append(list, p.filter())
	}
	return func(in *state, s *scope, v Value) Value {
		for _, f := range list {
			v = f(in, s, v)
		}
		return v
	}
}

func (p *parser) filterBlock() stmt {
	first := p.filter()
	more := p.filters()
	inner, f := p.inMacro(nil, "endfilter")
	return func(in *state, s *scope) flow {
		in.write(in.str(more(in, s, first(in, s, in.captured(inner, f.scope(s))))))
		return onward
	}
}

func (p *parser) with() stmt {
	var names []string
	var values []expr
	for p.now().kind != endBlock {
		if len(names) > 0 {
			p.want(",")
		}
		names = append(names, p.wantKind(name, "a name").text)
		p.want("=")
		values = append(values, p.expression())
	}
	var inner []stmt
	f := p.framed(names, func() { inner = p.block("endwith") })
	return func(in *state, s *scope) flow {
		own := f.scope(s)
		for i, n := range names {
			own.vars[n] = values[i](in, s)
		}
		return run(inner, in, own)
	}
}

// inMacro reads a block whose text is used as a whole, so that no loop around it can be ended from it.
func (p *parser) inMacro(names []string, until string) (list []stmt, f *frame) {
	loops, soft := p.loops, p.soft
	p.loops, p.soft = 0, false
	defer func() { p.loops, p.soft = loops, soft }()
	return list, p.framed(names, func() { list = p.block(until) })
}

// parameters reads a macro's parameters, with their defaults.
func (p *parser) parameters(m *macro) {
	defer func(soft bool) { p.soft = soft }(p.soft)
	p.soft = false
	p.want("(")
	for !p.skip(")") {
		if len(m.names) > 0 {
			p.want(",")
			if p.skip(")") {
				break
			}
		}
		m.names = append(m.names, p.wantKind(name, "a name").text)
		var e expr
		if p.skip("=") {
			e = p.expression()
		} else if len(m.defaults) > 0 && m.defaults[len(m.defaults)-1] != nil {
			p.fail("a parameter without a default follows one with a default")
		}
		m.defaults = append(m.defaults, e)
	}
}

// macroBody reads what a macro or a call's block writes, and notes which names it refers to.
func (p *parser) macroBody(m *macro, until string) {
	outer := p.used
	p.used = map[string]bool{}
	m.body, m.frame = p.inMacro(append(slices.Clone(m.names), "caller", "kwargs", "varargs"), until)
	m.used = p.used
	for n := range p.used {
		if outer != nil {
			outer[n] = true
		}
	}
	p.used = outer
}

func (p *parser) macro() stmt {
	m := &macro{name: p.wantKind(name, "a name").text}
	p.stores(m.name)
	p.parameters(m)
	p.macroBody(m, "endmacro")
	return func(_ *state, s *scope) flow {
		s.vars[m.name] = m.in(s)
		return onward
	}
}

func (p *parser) callBlock() stmt {
	m := &macro{name: "caller"}
	if p.now().is("(") {
		p.parameters(m)
	}
	p.expression()
	called := p.last
	if called.before != p.at {
		p.fail("call is followed by no call of a macro")
	}
	p.macroBody(m, "endcall")
	return func(in *state, s *scope) flow {
		f, a := called.of(in, s), called.a.values(in, s)
		a.named.Set("caller", m.in(s))
		in.write(in.str(in.call(f, a)))
		return onward
	}
}
