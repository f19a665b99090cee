package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Byte-level vocabularies write every byte as one printable character: those that are printable in Latin-1 as
// themselves, the other 68 as U+0100 onwards. So a space is Ġ and a line feed Ċ.
var (
	runeOfByte [256]rune
	byteOfRune = map[rune]byte{}
)

func init() {
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !('!' <= r && r <= '~' || 0xa1 <= r && r <= 0xac || 0xae <= r && r <= 0xff) {
			r = next
			next++
		}
		runeOfByte[b] = r
		byteOfRune[r] = byte(b)
	}
}

// pieceOfBytes writes bytes as a byte-level vocabulary does.
func pieceOfBytes(b string) string {
	var out strings.Builder
	for i := range len(b) {
		out.WriteRune(runeOfByte[b[i]])
	}
	return out.String()
}

// bytesOfPiece is the inverse. A piece with any other character stands for its own UTF-8 text, as the reference has it.
func bytesOfPiece(piece string) string {
	out := make([]byte, 0, len(piece))
	for _, r := range piece {
		b, ok := byteOfRune[r]
		if !ok {
			return piece
		}
		out = append(out, b)
	}
	return string(out)
}

// byteLevel is the byte-level BPE model.
type byteLevel struct {
	split        splitter
	byteID       [256]int32
	merges       merges
	bytes        []string         // what each id decodes to
	ignoreMerges map[string]int32 // the vocabulary by bytes where whole words are looked up before merging, else nil
	cache        wordCache
}

// newByteLevel checks that the vocabulary can spell every text, that merges only make pieces that it has, and that none of
// them is missing.
func newByteLevel(v *vocabulary, mergePairs [][2]string, ignoreMerges bool, split splitter) (*byteLevel, error) {
	m := &byteLevel{split: split, bytes: v.bytes}
	var missing []string
	for b := range m.byteID {
		id, ok := v.model[string(runeOfByte[b])]
		if !ok {
			missing = append(missing, fmt.Sprintf("%#02x (%q)", b, runeOfByte[b]))
		}
		m.byteID[b] = id
	}
	if len(missing) > 0 {
		shown := strings.Join(missing[:min(len(missing), 5)], ", ")
		return nil, fmt.Errorf("model.vocab lacks %d of the 256 single bytes (%s): texts with them could not be spelled", len(missing), shown)
	}
	pairs, made, err := newMerges(v, mergePairs)
	if err != nil {
		return nil, err
	}
	m.merges = pairs
	if !ignoreMerges {
		if err := v.checkMade(made); err != nil {
			return nil, err
		}
	} else {
		m.ignoreMerges = make(map[string]int32, len(v.model))
		for piece, id := range v.model {
			if b := bytesOfPiece(piece); pieceOfBytes(b) == piece {
				m.ignoreMerges[b] = id
			}
		}
	}
	return m, nil
}

func (m *byteLevel) encode(ids []int32, text string, _ bool) []int32 {
	for len(text) > 0 {
		n := m.split(text)
		ids = m.encodeWord(ids, text[:n])
		text = text[n:]
	}
	return ids
}

// locate follows from the ids, for each stands for the bytes that it decodes to and together they are the text.
func (m *byteLevel) locate(out []located, text string, start bool) []located {
	at := 0
	for _, id := range m.encode(nil, text, start) {
		end := at + len(m.bytes[id])
		out = append(out, located{id, at, end})
		at = end
	}
	return out
}

func (m *byteLevel) words(text string, visit func(string)) {
	for len(text) > 0 {
		n := m.split(text)
		visit(text[:n])
		text = text[n:]
	}
}

func (m *byteLevel) encodeWord(ids []int32, word string) []int32 {
	if len(word) == 1 {
		return append(ids, m.byteID[word[0]])
	}
	if id, ok := m.ignoreMerges[word]; ok {
		return append(ids, id)
	}
	if cached, ok := m.cache.get(word); ok {
		return append(ids, cached...)
	}
	start := len(ids)
	for i := range len(word) {
		ids = append(ids, m.byteID[word[i]])
	}
	ids = ids[:start+m.merges.apply(ids[start:])]
	m.cache.put(word, ids[start:])
	return ids
}

// replaceIllFormed appends b with every maximal ill-formed subpart replaced by U+FFFD.
func replaceIllFormed(out []byte, b []byte) []byte {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size <= 1 {
			out = append(out, "\uFFFD"...)
			b = b[illFormed(b):]
			continue
		}
		out = append(out, b[:size]...)
		b = b[size:]
	}
	return out
}

// illFormed returns the length of the maximal ill-formed subpart at the start of b, which does not start with a whole
// character: the longest prefix that some character starts with, at least one byte (Unicode 16, 3.9, table 3-7).
func illFormed(b []byte) int {
	low, high, more := leadByte(b[0])
	if more == 0 {
		return 1
	}
	n := 1
	for n < len(b) && n <= more && low <= b[n] && b[n] <= high {
		low, high = 0x80, 0xbf
		n++
	}
	return n
}

// leadByte returns the range of the second byte after a lead byte and how many bytes follow it in all; 0 where no
// longer character starts so.
func leadByte(lead byte) (low, high byte, more int) {
	switch {
	case lead < 0xc2:
		return 0, 0, 0
	case lead < 0xe0:
		return 0x80, 0xbf, 1
	case lead == 0xe0:
		return 0xa0, 0xbf, 2
	case lead == 0xed:
		return 0x80, 0x9f, 2
	case lead < 0xf0:
		return 0x80, 0xbf, 2
	case lead == 0xf0:
		return 0x90, 0xbf, 3
	case lead < 0xf4:
		return 0x80, 0xbf, 3
	case lead == 0xf4:
		return 0x80, 0x8f, 3
	}
	return 0, 0, 0
}
