package tokenizer

import (
	"strings"
	"unicode"
)

// normalizers do one step after the other.
type normalizers []normalizer

func (list normalizers) normalize(text string) string {
	for _, step := range list {
		text = step.normalize(text)
	}
	return text
}

// normalized normalizes a text. kept says that what begins the outcome is what began the text: where [strip] takes white
// space away there, the rest begins behind it, and Metaspace's scheme first puts no mark before the rest.
func normalized(n normalizer, text string) (out string, kept bool) {
	steps, ok := n.(normalizers)
	if !ok {
		steps = normalizers{n}
	}
	kept = true
	for _, step := range steps {
		out = step.normalize(text)
		if s, ok := step.(strip); ok && s.left && strings.TrimLeftFunc(text, unicode.IsSpace) != text {
			kept = false
		}
		text = out
	}
	return text, kept
}

// replace puts content for a string, or with runs for each run of two or more spaces.
type replace struct {
	old, content string
	runs         bool
}

func (r replace) normalize(text string) string {
	if !r.runs {
		return strings.ReplaceAll(text, r.old, r.content)
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, r.old)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(r.content)
		text = strings.TrimLeft(after, " ")
	}
}

// prependText puts a string before a text.
type prependText string

func (p prependText) normalize(text string) string {
	if text == "" {
		return text
	}
	return string(p) + text
}

// strip removes white space from the ends of a text.
type strip struct{ left, right bool }

func (s strip) normalize(text string) string {
	if s.left {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if s.right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text
}
