package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A piece is a part of a text on its way to become words.
type piece struct {
	text  string
	start bool // it begins the text
}

func (p piece) cut(from, to int) piece { return piece{p.text[from:to], p.start && from == 0} }

// A cutter makes smaller pieces of one.
type cutter interface {
	cut(p piece, visit func(piece))
}

// whitespaceSplit cuts at white space, which is gone.
type whitespaceSplit struct{}

func (whitespaceSplit) cut(p piece, visit func(piece)) {
	from := -1
	for at, r := range p.text {
		switch blank := unicode.IsSpace(r); {
		case !blank && from < 0:
			from = at
		case blank && from >= 0:
			visit(p.cut(from, at))
			from = -1
		}
	}
	if from >= 0 {
		visit(p.cut(from, len(p.text)))
	}
}

// metaspace writes a mark for a space, may put one before the piece, and with split cuts before each mark (Kudo and
// Richardson 2018).
type metaspace struct {
	mark   string
	scheme prepend // prependUnless, prependFirst or prependNever
	split  bool
}

func (m metaspace) cut(p piece, visit func(piece)) {
	if p.text == "" {
		return
	}
	out := piece{strings.ReplaceAll(p.text, " ", m.mark), p.start}
	if m.scheme.before(p.text, m.mark, p.start) {
		out.text = m.mark + out.text
	}
	if !m.split {
		visit(out)
		return
	}
	for out.text != "" {
		_, first := utf8.DecodeRuneInString(out.text)
		end := strings.Index(out.text[first:], m.mark)
		if end < 0 {
			visit(out)
			return
		}
		visit(out.cut(0, first+end))
		out = out.cut(first+end, len(out.text))
	}
}

// cutAll applies the cutters one after the other.
func cutAll(list []cutter, p piece, visit func(piece)) {
	if len(list) == 0 {
		if p.text != "" {
			visit(p)
		}
		return
	}
	list[0].cut(p, func(p piece) { cutAll(list[1:], p, visit) })
}

// metaspaceDecoder writes spaces for the marks; the first piece's spaces are gone if the encoder put one there.
type metaspaceDecoder struct {
	mark  string
	strip bool
}

func (d metaspaceDecoder) add(s *decoderState, piece string) string {
	space := " "
	if !s.begun && d.strip {
		space = ""
	}
	s.begun = true
	return strings.ReplaceAll(piece, d.mark, space)
}

func (metaspaceDecoder) flush(*decoderState) string { return "" }
