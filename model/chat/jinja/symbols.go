package jinja

import "maps"

// frame is a part of a template with names of its own: the template, a loop's body, a macro. Jinja decides which name is
// meant before anything is run: a name that a frame sets before it refers to it, and that no frame around it refers to,
// has no value there until it is set, also for the loops and macros within the frame.
type frame struct {
	outer *frame
	symbols
	unset []string // names without a value at the frame's beginning
}

// symbols are the names that a frame has met.
type symbols struct {
	refers map[string]bool // true if the frame set the name first
	stored map[string]bool
}

func (s symbols) clone() symbols { return symbols{maps.Clone(s.refers), maps.Clone(s.stored)} }

// framed reads a part in a frame of its own, in which names have values from the beginning.
func (p *parser) framed(names []string, read func()) *frame {
	f := &frame{outer: p.frame, symbols: symbols{map[string]bool{}, map[string]bool{}}}
	for _, n := range names {
		f.refers[n] = false
	}
	p.frame = f
	p.frames = append(p.frames, f)
	read()
	p.frame = f.outer
	return f
}

// stores notes that a frame sets a name.
func (p *parser) stores(names ...string) {
	for _, n := range names {
		p.frame.stored[n] = true
		if _, met := p.frame.refers[n]; !met {
			p.frame.refers[n] = true
		}
	}
}

// loads notes that a frame refers to a name.
func (p *parser) loads(n string) {
	if _, met := p.frame.refers[n]; !met {
		p.frame.refers[n] = false
	}
}

// branch reads one branch of a condition, and returns the names after it.
func (p *parser) branch(read func()) symbols {
	before := p.frame.symbols
	p.frame.symbols = before.clone()
	read()
	after := p.frame.symbols
	p.frame.symbols = before
	return after
}

// merge joins the branches of a condition. A name that some branches set and others do not has its value from outside.
func (s symbols) merge(branches ...symbols) {
	count := map[string]int{}
	for _, b := range branches {
		for n := range b.stored {
			if !s.stored[n] {
				count[n]++
			}
		}
	}
	for _, b := range branches {
		maps.Copy(s.refers, b.refers)
		maps.Copy(s.stored, b.stored)
	}
	for n, k := range count {
		if k < len(branches) {
			s.refers[n] = false
		}
	}
}

// settle finds the names without a value of each frame, once all frames are read.
func (p *parser) settle() {
	for _, f := range p.frames {
		for n, first := range f.refers {
			for at := f.outer; at != nil && first; at = at.outer {
				_, met := at.refers[n]
				first = !met
			}
			if first {
				f.unset = append(f.unset, n)
			}
		}
	}
}

// scope is a new scope of the frame.
func (f *frame) scope(outer *scope) *scope {
	s := newScope(outer)
	for _, n := range f.unset {
		s.vars[n] = undefined{quoted(n)}
	}
	return s
}
