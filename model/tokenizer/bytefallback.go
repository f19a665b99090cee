package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// blank is SentencePiece's character for a space.
const blank = "▁"

// byteFallback is BPE over characters, as LLaMA 2's SentencePiece model in tokenizer.json: the pieces <0x00> … <0xFF>
// of its bytes replace a character that is not a piece. Spaces are blanks.
type byteFallback struct {
	prepend   prepend // whether a blank goes before a part of the text
	character map[rune]int32
	byteID    [256]int32
	merges    merges
	// apart says that no piece has a blank after another character, so that words can be merged separately.
	apart bool
	cache wordCache
}

// prepend says where a blank is put before a part of a text between added tokens.
type prepend int

const (
	prependNever  prepend = iota
	prependPart           // before every part
	prependUnless         // before every part that does not begin with one
	prependFirst          // before the text, unless it begins with one or with an added token
)

// before reports whether a mark for a space goes before a part, which may be the start of the text.
func (p prepend) before(part, mark string, start bool) bool {
	return part != "" && (p == prependPart ||
		(p == prependUnless || p == prependFirst && start) && part[0] != ' ' && !strings.HasPrefix(part, mark))
}

func newByteFallback(v *vocabulary, pairs [][2]string, p prepend) (*byteFallback, error) {
	m := &byteFallback{prepend: p, character: map[rune]int32{}, apart: true}
	for b := range m.byteID {
		name := fmt.Sprintf("<0x%02X>", b)
		id, ok := v.model[name]
		if !ok {
			return nil, fmt.Errorf("model.vocab lacks %s of the 256 bytes that byte_fallback needs", name)
		}
		m.byteID[b] = id
	}
	for piece, id := range v.model {
		if r, size := utf8.DecodeRuneInString(piece); size == len(piece) && r != utf8.RuneError {
			m.character[r] = id
		}
	}
	var err error
	if m.merges, _, err = newMerges(v, pairs); err != nil {
		return nil, err
	}
	for _, pair := range pairs {
		if !strings.HasSuffix(pair[0], blank) && strings.HasPrefix(pair[1], blank) {
			m.apart = false
		}
	}
	return m, nil
}

// byteOfFallback returns the byte of a piece <0xXX>.
func byteOfFallback(piece string) (byte, bool) {
	if len(piece) != 6 || !strings.HasPrefix(piece, "<0x") || piece[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(piece[3:5], 16, 8)
	return byte(b), err == nil
}

// bytesOfFallback returns the text that a piece stands for.
func bytesOfFallback(piece string) string {
	if b, ok := byteOfFallback(piece); ok {
		return string([]byte{b})
	}
	return strings.ReplaceAll(piece, blank, " ")
}

func (m *byteFallback) encode(ids []int32, text string, start bool) []int32 {
	if m.prepend.before(text, blank, start) {
		if !m.apart {
			return m.encodeWord(ids, blank+text)
		}
		n := wordEnd(text)
		ids = m.encodeWord(ids, blank+text[:n])
		text = text[n:]
	}
	if !m.apart {
		return m.encodeWord(ids, text)
	}
	m.words(text, func(word string) { ids = m.encodeWord(ids, word) })
	return ids
}

// wordEnd returns the end of the first word: blanks, and what follows up to the next one.
func wordEnd(text string) int {
	blanks := true
	for at := 0; at < len(text); {
		size := 0
		if text[at] == ' ' {
			size = 1
		} else if strings.HasPrefix(text[at:], blank) {
			size = len(blank)
		}
		switch {
		case size == 0:
			blanks, size = false, 1
		case !blanks:
			return at
		}
		at += size
	}
	return len(text)
}

func (m *byteFallback) encodeWord(ids []int32, word string) []int32 {
	return m.cache.encode(ids, word, m.pieces)
}

// pieces appends the pieces of a word.
func (m *byteFallback) pieces(ids []int32, word string) []int32 {
	start := len(ids)
	ids = m.symbols(ids, word)
	return ids[:start+m.merges.apply(ids[start:])]
}

// symbols appends the ids of a text's characters or bytes.
func (m *byteFallback) symbols(ids []int32, text string) []int32 {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if r == ' ' {
			r = '▁'
		}
		id, ok := m.character[r]
		if ok && (r != utf8.RuneError || size > 1) {
			ids = append(ids, id)
		} else {
			for i := range size {
				ids = append(ids, m.byteID[text[at+i]])
			}
		}
		at += size
	}
	return ids
}

func (m *byteFallback) words(text string, visit func(string)) {
	for len(text) > 0 {
		n := wordEnd(text)
		visit(text[:n])
		text = text[n:]
	}
}

// byteFallbackDecoder joins pieces, blanks as spaces. A run of byte pieces is its text if it is UTF-8, and else U+FFFD
// for every byte. strip takes one space from the start of the text.
type byteFallbackDecoder struct{ strip bool }

func (d byteFallbackDecoder) add(s *decoderState, piece string) string {
	if b, ok := byteOfFallback(piece); ok {
		s.pending = append(s.pending, b)
		return ""
	}
	return d.begin(s, d.run(s)+strings.ReplaceAll(piece, blank, " "))
}

func (d byteFallbackDecoder) flush(s *decoderState) string { return d.begin(s, d.run(s)) }

func (byteFallbackDecoder) run(s *decoderState) string {
	out := string(s.pending)
	if !utf8.Valid(s.pending) {
		out = strings.Repeat("\uFFFD", len(s.pending))
	}
	s.pending = s.pending[:0]
	return out
}

func (d byteFallbackDecoder) begin(s *decoderState, text string) string {
	if d.strip && !s.begun && text != "" {
		text = strings.TrimPrefix(text, " ")
		s.begun = true
	}
	return text
}
