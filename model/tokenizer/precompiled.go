package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// precompiled is SentencePiece's normalizer: a table of strings and what replaces them, such as Unicode's compatibility
// forms (Kudo and Richardson, arXiv 1808.06226). Its strings are the keys of a double array, a trie whose nodes are the
// words of one array:
//
//	bits 0 to 7, 31   the byte that leads to the node; bit 31 marks a value instead
//	bit 8             a value is at the node's offset
//	bits 9 to 31      the offset to the children, in steps of 1 or 256
//
// A value is where the replacement begins in texts, which end in zero bytes.
type precompiled struct {
	units []uint32
	texts string
	// plain says of ASCII that nothing replaces it and that nothing which begins with it is replaced.
	plain [utf8.RuneSelf]bool
}

// newPrecompiled reads the base64 of a charsmap: the array's length in bytes, the array, the texts.
func newPrecompiled(encoded string) (*precompiled, error) {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("precompiled_charsmap: %w", err)
	}
	if len(raw) < 4 {
		return nil, fmt.Errorf("precompiled_charsmap has %d bytes, at least 4 are needed", len(raw))
	}
	size := binary.LittleEndian.Uint32(raw)
	raw = raw[4:]
	if size == 0 || size%4 != 0 || uint64(size) > uint64(len(raw)) {
		return nil, fmt.Errorf("precompiled_charsmap: an array of %d bytes in %d", size, len(raw))
	}
	p := &precompiled{units: make([]uint32, size/4), texts: string(raw[size:])}
	for i := range p.units {
		p.units[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	if !utf8.ValidString(p.texts) {
		return nil, errors.New("precompiled_charsmap: its texts are not UTF-8")
	}
	for c := range p.plain {
		_, replaced := p.replacement(string(rune(c)))
		p.plain[c] = !replaced
	}
	return p, nil
}

// replacement returns what replaces text: the value of the shortest key that text begins with, as in the reference,
// whose table has no key that another begins with.
func (p *precompiled) replacement(text string) (string, bool) {
	at := offsetOf(p.units[0])
	for i := range len(text) {
		c := uint32(text[i])
		if c == 0 {
			return "", false
		}
		at ^= c
		if uint64(at) >= uint64(len(p.units)) || p.units[at]&(1<<31|0xff) != c {
			return "", false
		}
		unit := p.units[at]
		at ^= offsetOf(unit)
		if unit>>8&1 == 0 {
			continue
		}
		if uint64(at) >= uint64(len(p.units)) {
			return "", false
		}
		from := int(p.units[at] & (1<<31 - 1))
		if from > len(p.texts) || from < len(p.texts) && !utf8.RuneStart(p.texts[from]) {
			return "", false
		}
		value, _, _ := strings.Cut(p.texts[from:], "\x00")
		return value, true
	}
	return "", false
}

func offsetOf(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// longestCluster bounds in bytes the clusters that are looked up as a whole, as in the reference.
const longestCluster = 5

// normalize replaces short grapheme clusters as a whole, and all else by code point. The library's clusters differ from
// the reference's only behind two joiners in a row, in clusters that are too long to be looked up.
func (p *precompiled) normalize(text string) string {
	out := make([]byte, 0, len(text)+8)
	for at := 0; at < len(text); {
		if c := text[at]; c < utf8.RuneSelf && p.plain[c] && c != '\r' && (at+1 == len(text) || text[at+1] < utf8.RuneSelf) {
			out = append(out, c)
			at++
			continue
		}
		end := at + len(graphemes.FromString(text[at:]).First())
		if end-at <= longestCluster {
			if value, ok := p.replacement(text[at:end]); ok {
				out = append(out, value...)
				at = end
				continue
			}
		}
		for at < end {
			_, size := utf8.DecodeRuneInString(text[at:])
			part := text[at : at+size]
			if value, ok := p.replacement(part); ok {
				part = value
			}
			out = append(out, part...)
			at += size
		}
	}
	return string(out)
}
