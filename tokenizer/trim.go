package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// trim takes white space out of the ranges of ids, as the post-processors of byte-level BPE do with trim_offsets. kept
// says that a single space at the start of the text counts as one that the encoder put there, and stays.
type trim struct{ kept bool }

// blanksAround counts the characters at both ends of a token that stand for white space.
func blanksAround(token string) (before, after int) {
	isBlank := func(r rune) bool { return r == runeOfByte[' '] || unicode.IsSpace(r) }
	for _, r := range token {
		if !isBlank(r) {
			break
		}
		before++
	}
	for rest := token; rest != ""; {
		r, size := utf8.DecodeLastRuneInString(rest)
		if !isBlank(r) {
			break
		}
		after++
		rest = rest[:len(rest)-size]
	}
	return before, after
}

// ranges narrows the ranges of an encoding of text; tokens are its ids as the file spells them, and added tokens as they
// stand in the text. The arithmetic is the reference's, which counts characters: a range can become empty.
func (t *trim) ranges(text string, e *Encoding, tokens []string) {
	for i, token := range tokens {
		before, after := blanksAround(token)
		chars, bytes := &e.CharOffsets[i], &e.ByteOffsets[i]
		if before > 0 {
			if t.kept && before == 1 && (i == 0 || chars[0] == 0) { // several are the text's own
				before = 0
			}
			for range min(before, chars[1]-chars[0]) {
				_, size := utf8.DecodeRuneInString(text[bytes[0]:])
				bytes[0] += size
				chars[0]++
			}
		}
		if after > 0 && chars[1] >= after {
			for range min(after, chars[1]-chars[0]) {
				_, size := utf8.DecodeLastRuneInString(text[:bytes[1]])
				bytes[1] -= size
				chars[1]--
			}
		}
	}
}
