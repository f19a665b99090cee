package tokenizer

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// span is a half-open range of bytes of the text before a step.
type span struct{ from, to int }

// A normalizer rewrites a text before it is tokenized. With track, at has for every byte of the result the range of the
// text that it came from; nil means that the text did not change.
type normalizer interface {
	normalize(text string, track bool) (result string, at []span)
}

// normalized collects a result and, where wanted, its origin.
type normalized struct {
	text  []byte
	at    []span
	track bool
}

func (n *normalized) add(r rune, from, to int) {
	before := len(n.text)
	n.text = utf8.AppendRune(n.text, r)
	n.came(len(n.text)-before, from, to)
}

func (n *normalized) addBytes(b string, from, to int) {
	n.text = append(n.text, b...)
	n.came(len(b), from, to)
}

func (n *normalized) came(bytes, from, to int) {
	if n.track {
		for range bytes {
			n.at = append(n.at, span{from, to})
		}
	}
}

func (n *normalized) done() (string, []span) { return string(n.text), n.at }

// nfc is Unicode's canonical composition, which Qwen uses.
type nfc struct{}

func (nfc) normalize(text string, track bool) (string, []span) {
	quick := norm.NFC.QuickSpanString(text)
	if quick == len(text) {
		return text, nil
	}
	if !track {
		return norm.NFC.String(text), nil
	}
	n := &normalized{track: true}
	var segments norm.Iter
	segments.InitString(norm.NFC, text)
	for !segments.Done() {
		from := segments.Pos()
		after := segments.Next()
		n.compose(text, from, segments.Pos(), after)
	}
	return n.done()
}

// compose adds the composed form of text[from:to]. A composed character has the range of the first of its parts, as in
// the reference.
func (n *normalized) compose(text string, from, to int, after []byte) {
	at := from
	first, size := utf8.DecodeRuneInString(text[at:to])
	left := parts(first)
	for len(after) > 0 {
		r, width := utf8.DecodeRune(after)
		if r == utf8.RuneError && width == 1 { // not UTF-8: kept as it is
			n.addBytes(string(after[:1]), at, min(at+1, to))
			at = min(at+1, to)
			_, size = utf8.DecodeRuneInString(text[at:to])
			after = after[1:]
			continue
		}
		after = after[width:]
		n.add(r, at, at+size)
		for need := parts(r); need > 0 && at < to; need-- {
			if left--; left > 0 {
				continue
			}
			if at+size >= to {
				break
			}
			at += size
			first, size = utf8.DecodeRuneInString(text[at:to])
			left = parts(first)
		}
	}
}

// blanks is Prepend and Replace of LLaMA 2: spaces become blanks, and if prepend is set, one is put before the text. It
// has the range of the text's first character, as in the reference.
type blanks struct{ prepend bool }

func (b blanks) normalize(text string, track bool) (string, []span) {
	n := &normalized{text: make([]byte, 0, len(text)+len(text)/2+len(blank)), track: track}
	if b.prepend && text != "" {
		_, size := utf8.DecodeRuneInString(text)
		n.addBytes(blank, 0, size)
	}
	for at := range len(text) {
		if text[at] == ' ' {
			n.addBytes(blank, at, at+1)
		} else {
			n.addBytes(text[at:at+1], at, at+1)
		}
	}
	return n.done()
}

// parts returns how many code points r decomposes into.
func parts(r rune) int { return utf8.RuneCountInString(norm.NFD.String(string(r))) }
