package godoc

import (
	"hash/maphash"
	"strings"
	"unicode"

	"popri/internal/numeric"
)

const (
	// prefixWords is the number of leading words that two texts share if they count as the same comment with small
	// changes.
	prefixWords = 8
	// runWords is the length of a run of words that may not occur on both sides of a border.
	runWords = 12
)

// Border keeps text from occurring on both sides of a border: it recognises in later text what was added on the
// stricter side. It compares words in lower case by their letters and digits alone, so that case, punctuation and line
// breaks hide nothing. Make one with [newBorder].
type Border struct {
	seed     maphash.Seed
	prefixes map[uint64]bool
	runs     map[uint64]bool
}

// newBorder returns a border whose stricter side is empty.
func newBorder() *Border {
	return &Border{seed: maphash.MakeSeed(), prefixes: map[uint64]bool{}, runs: map[uint64]bool{}}
}

// Repeats reports whether text begins like a text that was added before: the same first words, or the same whole if
// shorter.
func (b *Border) Repeats(text string) bool {
	return b.prefixes[b.prefix(b.hashes(text))]
}

// Shares reports whether text repeats a text that was added before, or shares a run of 12 words with one.
func (b *Border) Shares(text string) bool {
	words := b.hashes(text)
	if b.prefixes[b.prefix(words)] {
		return true
	}
	for i := 0; i == 0 || i+runWords <= len(words); i++ {
		if b.runs[combine(words[i:min(len(words), i+runWords)])] {
			return true
		}
	}
	return false
}

// Add adds text to the stricter side.
func (b *Border) Add(text string) {
	words := b.hashes(text)
	b.prefixes[b.prefix(words)] = true
	for i := 0; i == 0 || i+runWords <= len(words); i++ {
		b.runs[combine(words[i:min(len(words), i+runWords)])] = true
	}
}

// hashes returns one hash for each normalised word.
func (b *Border) hashes(text string) []uint64 {
	return numeric.Map(normalise(text), func(w string) uint64 { return maphash.String(b.seed, w) })
}

func (b *Border) prefix(words []uint64) uint64 { return combine(words[:min(len(words), prefixWords)]) }

// combine hashes a run of words in their order.
func combine(words []uint64) uint64 {
	h := uint64(len(words))
	for _, w := range words {
		h = (h ^ w) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

// normalise lowers case and keeps letters and digits; everything else separates words.
func normalise(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}
