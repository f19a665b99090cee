package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// normalizers do one step after the other.
type normalizers []normalizer

func (list normalizers) normalize(text string, track bool) (string, []span) {
	var at []span
	for _, step := range list {
		var came []span
		text, came = step.normalize(text, track)
		at = through(at, came)
	}
	return text, at
}

// through returns the ranges of a second step's bytes in the text before the first; nil stands for the text itself.
func through(first, second []span) []span {
	if first == nil || second == nil {
		if second == nil {
			return first
		}
		return second
	}
	out := make([]span, len(second))
	for i, s := range second {
		out[i] = span{first[s.from].from, first[s.to-1].to}
	}
	return out
}

// spansOf returns the range of every byte's character.
func spansOf(text string) []span {
	at := make([]span, 0, len(text))
	for from := 0; from < len(text); {
		_, size := utf8.DecodeRuneInString(text[from:])
		for range size {
			at = append(at, span{from, from + size})
		}
		from += size
	}
	return at
}

// replace puts content for a string, or with runs for each run of two or more spaces. It has the range of the last
// character that it replaces, as in the reference.
type replace struct {
	old, content string
	runs         bool
}

func (r replace) normalize(text string, track bool) (string, []span) {
	if !strings.Contains(text, r.old) {
		return text, nil
	}
	n := &normalized{text: make([]byte, 0, len(text)), track: track}
	var whole []span
	if track {
		whole = spansOf(text)
	}
	keep := func(from, to int) {
		n.text = append(n.text, text[from:to]...)
		if track {
			n.at = append(n.at, whole[from:to]...)
		}
	}
	at := 0
	for {
		found := strings.Index(text[at:], r.old)
		if found < 0 {
			keep(at, len(text))
			return n.done()
		}
		keep(at, at+found)
		at += found + len(r.old)
		for r.runs && at < len(text) && text[at] == ' ' {
			at++
		}
		_, size := utf8.DecodeLastRuneInString(text[:at])
		n.addBytes(r.content, at-size, at)
	}
}

// prependText puts a string before a text; it has the range of the text's first character, as in the reference.
type prependText string

func (p prependText) normalize(text string, track bool) (string, []span) {
	if text == "" {
		return text, nil
	}
	if !track {
		return string(p) + text, nil
	}
	_, size := utf8.DecodeRuneInString(text)
	at := make([]span, 0, len(p)+len(text))
	for range len(p) {
		at = append(at, span{0, size})
	}
	return string(p) + text, append(at, spansOf(text)...)
}

// strip removes white space from the ends of a text.
type strip struct{ left, right bool }

func (s strip) normalize(text string, track bool) (string, []span) {
	from, to := 0, len(text)
	if s.left {
		from = to - len(strings.TrimLeftFunc(text, unicode.IsSpace))
	}
	if s.right {
		to = from + len(strings.TrimRightFunc(text[from:], unicode.IsSpace))
	}
	if from == 0 && to == len(text) || !track {
		return text[from:to], nil
	}
	return text[from:to], spansOf(text)[from:to]
}
