package tokenizer

import "unicode/utf8"

// A joiner makes text of pieces, one at a time.
type joiner interface {
	add(s *decoderState, piece string) string
	flush(s *decoderState) string
}

type decoderState struct {
	pending []byte // bytes of an incomplete character
	begun   bool   // something was decoded
}

// decoder decodes ids one at a time, for text that is shown or searched while it grows. It holds back the bytes of an
// incomplete character, so that the results of Add and Flush together are the result of Decode.
type decoder struct {
	tokenizer   *Tokenizer
	skipSpecial bool
	state       decoderState
}

// newDecoder returns a decoder at the start of a text.
func (t *Tokenizer) newDecoder(skipSpecial bool) *decoder {
	return &decoder{tokenizer: t, skipSpecial: skipSpecial}
}

// Add returns the text that id completes, "" if it only begins a character.
func (d *decoder) Add(id int32) string {
	t := d.tokenizer
	if !t.vocab.has(id) || d.skipSpecial && t.vocab.special[id] {
		return ""
	}
	if t.joiner == nil {
		return joinBytes(&d.state, t.vocab.bytes[id])
	}
	return t.joiner.add(&d.state, t.vocab.shown[id])
}

// Flush returns the rest at the end of the text: U+FFFD for an incomplete character.
func (d *decoder) Flush() string {
	if d.tokenizer.joiner != nil {
		return d.tokenizer.joiner.flush(&d.state)
	}
	out := string(replaceIllFormed(nil, d.state.pending))
	d.state.pending = d.state.pending[:0]
	return out
}

// joinBytes is the byte-level joiner: pieces are bytes.
func joinBytes(s *decoderState, text string) string {
	if len(s.pending) == 0 && utf8.ValidString(text) {
		return text
	}
	s.pending = append(s.pending, text...)
	whole := len(s.pending) - unfinished(s.pending)
	out := string(replaceIllFormed(nil, s.pending[:whole]))
	s.pending = append(s.pending[:0], s.pending[whole:]...)
	return out
}

// unfinished returns the length of the end of b that a following byte could complete to one character.
func unfinished(b []byte) int {
	for n := 1; n <= min(3, len(b)); n++ {
		tail := b[len(b)-n:]
		if !utf8.RuneStart(tail[0]) {
			continue
		}
		if _, _, more := leadByte(tail[0]); more >= n && illFormed(tail) == n {
			return n
		}
		return 0
	}
	return 0
}
