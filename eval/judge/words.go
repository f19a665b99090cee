package judge

import (
	"strings"
	"unicode"
)

// words are a text's words in lower case, without signs around them.
func words(text string) []string {
	list := strings.Fields(strings.ToLower(text))
	out := list[:0]
	for _, w := range list {
		if w = strings.TrimFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// vocabulary numbers words.
type vocabulary map[string]uint32

// ids are the numbers of a text's words. New words get a number if add is set, and 0 otherwise, which no word has.
func (v vocabulary) ids(text string, add bool) []uint32 {
	list := words(text)
	out := make([]uint32, len(list))
	for i, w := range list {
		id, ok := v[w]
		if !ok && add {
			id = uint32(len(v) + 1)
			v[strings.Clone(w)] = id
		}
		out[i] = id
	}
	return out
}
