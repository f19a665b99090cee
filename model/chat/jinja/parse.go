package jinja

import (
	"slices"
	"strconv"
	"strings"

	"popri/internal/numeric"
)

// expr computes a value, and stmt writes a part of the text. A template is made of them.
type (
	expr func(in *state, s *scope) Value
	stmt func(in *state, s *scope) flow
)

// flow says how a loop continues after a statement.
type flow int

const (
	onward flow = iota
	skipped
	ended
)

// A template may have at most this many bytes, and its expressions and blocks at most maxDepth parts in each other.
const (
	maxSource = 1 << 20
	maxDepth  = 200
	maxChain  = 1000 // operators or members in a row
)

// parser makes statements of a template's tokens.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int             // that the statement stands in
	used   map[string]bool // names that the macro refers to
	last   lastCall
	frame  *frame
	frames []*frame // all of them
	// soft says that names of filters may be unknown until they are used, as Jinja has it within a condition.
	soft    bool
	unknown []token // names of filters and tests elsewhere
}

func (p *parser) now() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != end {
		p.at++
	}
	return t
}

func (p *parser) fail(format string, v ...any) { failAt(p.now().line, format, v...) }

// skip goes over an operator, if it stands here.
func (p *parser) skip(op string) bool {
	if p.now().is(op) {
		p.at++
		return true
	}
	return false
}

// skipName goes over a name, if it stands here.
func (p *parser) skipName(n string) bool {
	if p.now().named(n) {
		p.at++
		return true
	}
	return false
}

func (p *parser) want(op string) {
	if !p.skip(op) {
		p.fail("%s stands where %q must", p.now(), op)
	}
}

// closed goes over the end of a tag, before which Jinja allows a colon.
func (p *parser) closed() {
	p.skip(":")
	p.wantKind(endBlock, `"%}"`)
}

func (p *parser) wantKind(k kind, what string) token {
	if p.now().kind != k {
		p.fail("%s stands where %s must", p.now(), what)
	}
	return p.next()
}

// nested bounds how deep expressions and blocks stand in each other.
func (p *parser) nested() func() {
	if p.depth++; p.depth > maxDepth {
		p.fail("more than %d parts in each other", maxDepth)
	}
	return func() { p.depth-- }
}

// body reads statements up to one of the given tags, which it goes over, and returns the tag's name.
func (p *parser) body(until ...string) (list []stmt, ending string) {
	defer p.nested()()
	for {
		t := p.next()
		switch t.kind {
		case end:
			if len(until) > 0 {
				p.fail("a block has no end: %s", strings.Join(until, " or "))
			}
			return list, ""
		case data:
			list = append(list, func(in *state, _ *scope) flow { in.write(t.text); return onward })
		case beginOutput:
			e := p.tuple(true)
			p.wantKind(endOutput, `"}}"`)
			list = append(list, func(in *state, s *scope) flow {
				in.line = t.line
				in.write(in.str(e(in, s)))
				return onward
			})
		case beginBlock:
			tag := p.wantKind(name, "a statement")
			if slices.Contains(until, tag.text) {
				return list, tag.text
			}
			inner := p.statement(tag)
			list = append(list, func(in *state, s *scope) flow {
				in.line = tag.line
				in.step(1)
				return inner(in, s)
			})
		}
	}
}

// block is a body whose last tag has nothing but its name.
func (p *parser) block(until string) []stmt {
	p.closed()
	list, _ := p.body(until)
	p.closed()
	return list
}

// tuple reads an expression, or several with commas between them. conditions allows x if y else z.
func (p *parser) tuple(conditions bool) expr {
	read := p.or
	if conditions {
		read = p.expression
	}
	first := read()
	if !p.now().is(",") {
		return first
	}
	list := []expr{first}
	for p.skip(",") && p.begins() {
		list = append(list, read())
	}
	return func(in *state, s *scope) Value { return tuple(all(list, in, s)...) }
}

// begins reports whether a further value of a tuple begins here.
func (p *parser) begins() bool {
	t := p.now()
	switch t.kind {
	case endBlock, endOutput:
		return false
	}
	return !t.is(")") && !t.named("recursive")
}

func all(list []expr, in *state, s *scope) []Value {
	out := numeric.Map(list, func(e expr) Value { return e(in, s) })
	in.made(16 * len(list))
	return out
}

func (p *parser) expression() expr {
	defer p.nested()()
	unknown := len(p.unknown)
	e := p.or()
	if p.now().named("if") {
		defer func() { p.unknown = p.unknown[:unknown] }()
	}
	for chain := 0; p.skipName("if"); chain++ {
		p.bounded(chain)
		then, when := e, p.or()
		otherwise := expr(func(*state, *scope) Value {
			return undefined{"the value of an if-expression without else, whose condition is false,"}
		})
		if p.skipName("else") {
			otherwise = p.expression()
		}
		e = func(in *state, s *scope) Value {
			if truth(when(in, s)) {
				return then(in, s)
			}
			return otherwise(in, s)
		}
	}
	return e
}

func (p *parser) bounded(chain int) {
	if chain > maxChain {
		p.fail("more than %d parts of an expression in a row", maxChain)
	}
}

// chain reads operands with operators of one strength between them.
func (p *parser) chain(operand func() expr, here func() (combine func(in *state, s *scope, a, b expr) Value, ok bool)) expr {
	e := operand()
	for n := 0; ; n++ {
		combine, ok := here()
		if !ok {
			return e
		}
		p.bounded(n)
		left, right := e, operand()
		e = func(in *state, s *scope) Value { return combine(in, s, left, right) }
	}
}

func (p *parser) or() expr  { return p.shortened(p.and, "or", true) }
func (p *parser) and() expr { return p.shortened(p.not, "and", false) }

// shortened is a chain that ends at its first operand of the given truth.
func (p *parser) shortened(operand func() expr, operator string, end bool) expr {
	return p.chain(operand, func() (func(in *state, s *scope, a, b expr) Value, bool) {
		return func(in *state, s *scope, a, b expr) Value {
			if v := a(in, s); truth(v) == end {
				return v
			}
			return b(in, s)
		}, p.skipName(operator)
	})
}

func (p *parser) not() expr {
	defer p.nested()()
	if p.skipName("not") {
		e := p.not()
		return func(in *state, s *scope) Value { return !truth(e(in, s)) }
	}
	return p.comparison()
}

// comparison reads a < b < c, which holds where each of its parts does.
func (p *parser) comparison() expr {
	first := p.sum()
	type part struct {
		holds func(in *state, a, b Value) bool
		with  expr
	}
	var parts []part
	for {
		var holds func(in *state, a, b Value) bool
		switch t := p.now(); {
		case t.kind == operator && comparisons[t.text] != nil:
			holds = comparisons[p.next().text]
		case p.skipName("in"):
			holds = func(in *state, a, b Value) bool { return in.contains(b, a) }
		case t.named("not") && p.tokens[p.at+1].named("in"):
			p.at += 2
			holds = func(in *state, a, b Value) bool { return !in.contains(b, a) }
		}
		if holds == nil {
			break
		}
		p.bounded(len(parts))
		parts = append(parts, part{holds, p.sum()})
	}
	if len(parts) == 0 {
		return first
	}
	return func(in *state, s *scope) Value {
		a := first(in, s)
		for _, x := range parts {
			b := x.with(in, s)
			if !x.holds(in, a, b) {
				return false
			}
			a = b
		}
		return true
	}
}

// operation reads operators of one strength, each of which computes both of its operands.
func (p *parser) operation(operand func() expr, of map[string]func(in *state, a, b Value) Value) expr {
	return p.chain(operand, func() (func(in *state, s *scope, a, b expr) Value, bool) {
		do := of[p.now().text]
		if p.now().kind != operator || do == nil {
			return nil, false
		}
		p.at++
		return func(in *state, s *scope, a, b expr) Value { x := a(in, s); return do(in, x, b(in, s)) }, true
	})
}

func (p *parser) sum() expr     { return p.operation(p.joined, sums) }
func (p *parser) product() expr { return p.operation(p.power, products) }
func (p *parser) power() expr   { return p.operation(func() expr { return p.unary(true) }, powers) }

// joined reads texts with ~ between them.
func (p *parser) joined() expr {
	list := []expr{p.product()}
	for p.skip("~") {
		list = append(list, p.product())
	}
	if len(list) == 1 {
		return list[0]
	}
	return func(in *state, s *scope) Value { return in.join(all(list, in, s), "") } // plain, even where a part is safe
}

func (p *parser) unary(filters bool) expr {
	defer p.nested()()
	var e expr
	switch sign := p.now(); {
	case p.skip("-"), p.skip("+"):
		of := p.unary(false)
		e = func(in *state, s *scope) Value { return signed(sign.text, of(in, s)) }
	default:
		e = p.primary()
	}
	return p.postfixed(e, filters)
}

var constants = map[string]Value{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

func (p *parser) primary() expr {
	constant := func(v Value) expr { return func(*state, *scope) Value { return v } }
	t := p.next()
	switch t.kind {
	case name:
		if v, ok := constants[t.text]; ok {
			return constant(v)
		}
		return p.load(t.text)
	case text:
		for p.now().kind == text { // strings that follow each other are one
			t.text += p.next().text
		}
		return constant(t.text)
	case integer:
		i, err := strconv.ParseInt(t.text, 0, 64)
		if err != nil {
			failAt(t.line, "the number %s is damaged or larger than 64 bits", t.text)
		}
		return constant(i)
	case decimal:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			failAt(t.line, "the number %s is out of range", t.text)
		}
		return constant(f)
	}
	switch {
	case t.is("("):
		if p.skip(")") {
			return func(*state, *scope) Value { return tuple() }
		}
		e := p.tuple(true)
		p.want(")")
		return e
	case t.is("["):
		list := p.listed("]", p.expression)
		return func(in *state, s *scope) Value { return NewList(all(list, in, s)...) }
	case t.is("{"):
		return p.dict()
	}
	p.at--
	p.fail("%s stands where a value must", t)
	return nil
}

// listed reads expressions with commas between them, up to a closing bracket.
func (p *parser) listed(closing string, read func() expr) (list []expr) {
	for !p.skip(closing) {
		if len(list) > 0 {
			p.want(",")
			if p.skip(closing) {
				break
			}
		}
		list = append(list, read())
	}
	return list
}

func (p *parser) dict() expr {
	var values []expr
	keys := p.listed("}", func() expr {
		key := p.expression()
		p.want(":")
		values = append(values, p.expression())
		return key
	})
	return func(in *state, s *scope) Value {
		d := NewDict()
		for i, k := range keys {
			key := k(in, s)
			d.Set(key, values[i](in, s))
		}
		in.made(64 * len(keys))
		return d
	}
}

func (p *parser) load(n string) expr {
	if p.used != nil {
		p.used[n] = true
	}
	p.loads(n)
	return func(in *state, s *scope) Value {
		in.step(1)
		return in.lookup(s, n)
	}
}
