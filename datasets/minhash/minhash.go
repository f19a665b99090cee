// Package minhash finds texts that nearly repeat others.
//
// The similarity of two texts is the Jaccard coefficient of their sets of shingles, runs of five words:
//
//	J(A, B) = |A ∩ B| / |A ∪ B| = P[min h(A) = min h(B)]
//
// over random hash functions h (Broder, "On the resemblance and containment of documents", 1997). A signature has the
// minima of 125 functions. The index keeps them in 25 bands of 5, and looks closer at texts that share a band: a pair
// of similarity J shares one with probability 1 − (1 − J⁵)²⁵, which is 0.9999 at J = 0.8 and 0.006 at J = 0.19. It
// counts as near where at least 0.8 of the minima agree, an estimate of J with a standard deviation of 0.036 there.
package minhash

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"unicode"

	"popri/internal/rng"
)

const (
	// shingleWords is the length of a shingle. Runs of five words repeat by chance only in set phrases.
	shingleWords = 5
	bands, rows  = 25, 5
	// threshold is the similarity from which texts are near. Deduplication of corpora uses 0.7 to 0.9.
	threshold = 0.8
)

// Signature has the minima of a text's shingles.
type Signature [bands * rows]uint32

// functions are multiply-shift hash functions, the same in every process.
var functions = func() (f [bands * rows]struct{ a, b uint64 }) {
	random := rng.New(1, "minhash")
	for i := range f {
		f[i].a, f[i].b = random.Uint64()|1, random.Uint64()
	}
	return f
}()

// Words returns a text's words in lower case by their letters and digits alone, so that case, punctuation and line
// breaks hide no repetition. A text without letters and digits has its fields.
func Words(text string) []string {
	lower := strings.ToLower(text)
	words := strings.FieldsFunc(lower, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	if len(words) == 0 {
		return strings.Fields(lower)
	}
	return words
}

// Sign returns a text's signature. A text of fewer than five words is one shingle.
func Sign(text string) (s Signature) {
	for i := range s {
		s[i] = math.MaxUint32
	}
	words := Words(text)
	for i := 0; i == 0 || i+shingleWords <= len(words); i++ {
		h := hash(words[i:min(len(words), i+shingleWords)])
		for k, f := range functions {
			s[k] = min(s[k], uint32((f.a*h+f.b)>>32))
		}
	}
	return s
}

func hash(words []string) uint64 {
	h := fnv.New64a()
	for _, w := range words {
		h.Write([]byte(w))
		h.Write([]byte{0})
	}
	return h.Sum64()
}

// Similarity estimates the Jaccard coefficient of two texts' shingles.
func (s *Signature) Similarity(t *Signature) float64 {
	n := 0
	for i := range s {
		if s[i] == t[i] {
			n++
		}
	}
	return float64(n) / float64(len(s))
}

// band hashes a band with its number.
func (s *Signature) band(i int) uint64 {
	var b [4 * (rows + 1)]byte
	binary.LittleEndian.PutUint32(b[:], uint32(i))
	for k, v := range s[i*rows : (i+1)*rows] {
		binary.LittleEndian.PutUint32(b[4*(k+1):], v)
	}
	h := fnv.New64a()
	h.Write(b[:])
	return h.Sum64()
}

// Index finds the texts that were added to it. It holds about 1.2 kB for each.
type Index struct {
	signatures []Signature
	tags       []uint8
	bands      map[uint64][]int32
}

// NewIndex returns an empty index.
func NewIndex() *Index { return &Index{bands: map[uint64][]int32{}} }

// Add adds a text's signature under a tag of the caller's.
func (x *Index) Add(s Signature, tag uint8) {
	at := int32(len(x.signatures))
	for i := range bands {
		b := s.band(i)
		x.bands[b] = append(x.bands[b], at)
	}
	x.signatures, x.tags = append(x.signatures, s), append(x.tags, tag)
}

// Near returns the positions, in the order of [Index.Add], of all texts of a similarity of at least [threshold].
func (x *Index) Near(s Signature) []int32 {
	var at []int32
	for i := range bands {
		at = append(at, x.bands[s.band(i)]...)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	return slices.DeleteFunc(at, func(i int32) bool { return s.Similarity(&x.signatures[i]) < threshold })
}

// Find returns the tag of the first added text of a similarity of at least [threshold].
func (x *Index) Find(s Signature) (tag uint8, ok bool) {
	if near := x.Near(s); len(near) > 0 {
		return x.tags[near[0]], true
	}
	return 0, false
}
