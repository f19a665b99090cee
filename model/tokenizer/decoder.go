package tokenizer

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// A joiner makes text of pieces, one at a time.
type joiner interface {
	add(s *decoderState, piece string) string
	flush(s *decoderState) string
}

type decoderState struct {
	pending []byte // bytes of an incomplete character
	begun   bool   // something was decoded
}

// decode is [Tokenizer.Decode]; begun says that ids follow others.
func (t *Tokenizer) decode(ids []int32, skipSpecial, begun bool) string {
	s := decoderState{begun: begun}
	var out strings.Builder
	for _, id := range ids {
		switch {
		case !t.vocab.has(id) || skipSpecial && t.vocab.special[id]:
		case t.joiner == nil:
			out.WriteString(t.vocab.bytes[id])
		default:
			out.WriteString(t.joiner.add(&s, t.vocab.shown[id]))
		}
	}
	if t.joiner != nil {
		return out.String() + t.joiner.flush(&s)
	}
	return wellFormed(out.String())
}

// wellFormed replaces every maximal ill-formed part by U+FFFD (Unicode 16, 3.9).
func wellFormed(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	// The decoder of UTF-8 has no error.
	out, _ := unicode.UTF8.NewDecoder().String(text)
	return out
}
