package embedding

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"popri/internal/numeric"
	"popri/internal/parallel"
)

const (
	bucketBits = 18 // document frequencies: 2^18 buckets, 1 MB; twice as many changed no ranking that was tried
	gramMin    = 3  // shortest and longest character n-gram, in bytes, with markers of the word's ends
	gramMax    = 5
	sparsity   = 8 // entries of a feature's projection: 4 is faster and noisier, 16 slower and hardly better
)

// HashingConfig has the settings of [Hashing]. The zero value means the defaults.
type HashingConfig struct {
	// Dim is the length of the vectors; default 256. The random projection disturbs a cosine by about 1/√Dim, so a
	// smaller Dim separates texts less. A larger one costs time and, in private scoring, keeps more of the noise.
	Dim int
}

// Hashing is an encoder without trained weights. Make one with [FitHashing].
type Hashing struct {
	config HashingConfig
	idf    []float32 // one for each bucket
	mean   []float32 // of the public vectors, which is subtracted, because what all texts share separates none
	hash   string
}

// FitHashing counts how common each feature is in public texts, and computes their mean. It must never see private
// text, because the result is public.
func FitHashing(public []string, config HashingConfig) (*Hashing, error) {
	config.Dim = cmp.Or(config.Dim, 256)
	if err := config.validate(); err != nil {
		return nil, err
	}
	if len(public) == 0 {
		return nil, fmt.Errorf("embedding: the hashing encoder needs public texts to weigh features by, got none")
	}
	h := &Hashing{config: config, idf: make([]float32, 1<<bucketBits)}
	for i, n := range documents(public) {
		h.idf[i] = inverse(len(public), n)
	}
	var err error
	if h.mean, err = h.publicMean(public); err != nil {
		return nil, err
	}
	h.hash = h.fingerprint()
	return h, nil
}

func (c HashingConfig) validate() error {
	if c.Dim < 8 || c.Dim > 1<<14 {
		return fmt.Errorf("embedding: hashing encoder of %d dimensions, want 8 to %d", c.Dim, 1<<14)
	}
	return nil
}

// Name implements [Encoder].
func (h *Hashing) Name() string { return fmt.Sprintf("hashing-%d", h.config.Dim) }

// Dim implements [Encoder].
func (h *Hashing) Dim() int { return h.config.Dim }

// Hash identifies settings and fitted weights: hex, 32 digits.
func (h *Hashing) Hash() string { return h.hash }

// Encode implements [Encoder]. A text without a letter, digit or sign gives zeros.
func (h *Hashing) Encode(texts []string) (Matrix, error) {
	m := NewMatrix(len(texts), h.config.Dim)
	parallel.Ranges(len(texts), 64, func(from, to int) {
		s := scratches.Get().(*scratch)
		defer scratches.Put(s)
		for i := from; i < to; i++ {
			row := m.Row(i)
			if h.raw(texts[i], s, row) && h.mean != nil {
				for j, v := range h.mean {
					row[j] -= v
				}
				normalize(row)
			}
		}
	})
	return m, nil
}

// documents counts the texts in which features of each bucket occur.
func documents(texts []string) []uint32 {
	counts := make([]uint32, 1<<bucketBits)
	parallel.Ranges(len(texts), 64, func(from, to int) {
		s := scratches.Get().(*scratch)
		defer scratches.Put(s)
		for _, t := range texts[from:to] {
			s.features(t, true)
			for _, f := range s.found {
				atomic.AddUint32(&counts[bucket(f.hash)], 1)
			}
		}
	})
	return counts
}

// inverse is the smoothed inverse document frequency ln((1+n)/(1+df)) + 1.
func inverse(texts int, documents uint32) float32 {
	return float32(math.Log(float64(1+texts)/float64(1+documents)) + 1)
}

// publicMean adds in fixed blocks, so that the result does not depend on the distribution of work over threads.
func (h *Hashing) publicMean(texts []string) ([]float32, error) {
	const block = 512
	plain := &Hashing{config: h.config, idf: h.idf}
	sum := make([]float64, h.config.Dim)
	n := 0
	for from := 0; from < len(texts); from += 16 * block {
		m, err := plain.Encode(texts[from:min(len(texts), from+16*block)])
		if err != nil {
			return nil, err
		}
		for i := range m.Rows {
			row := m.Row(i)
			n++
			for j, v := range row {
				sum[j] += float64(v)
			}
		}
	}
	return numeric.Map(sum, func(x float64) float32 { return float32(x / float64(n)) }), nil
}

func (h *Hashing) fingerprint() string {
	d := sha256.New()
	fmt.Fprintf(d, "hashing 1 {Dim:%d GramWeight:1 Uncentered:false Seed:0} %d %d %d %d\n", h.config.Dim, bucketBits, gramMin, gramMax, sparsity)
	_ = binary.Write(d, binary.LittleEndian, h.idf) // a hash takes everything
	_ = binary.Write(d, binary.LittleEndian, h.mean)
	return hex.EncodeToString(d.Sum(nil)[:16])
}

// raw writes the unit vector before centring into row and reports whether text has any feature.
func (h *Hashing) raw(text string, s *scratch, row []float32) bool {
	s.features(text, true)
	for _, f := range s.found {
		project(row, f.hash, h.idf[bucket(f.hash)]*logCount(f.count))
	}
	return len(s.found) > 0 && normalize(row)
}

// project adds a feature's row of the random projection, times weight, to row.
func project(row []float32, hash uint64, weight float32) {
	dim, x := uint64(len(row)), hash
	for range sparsity / 4 {
		x = mix(x + 0x9e3779b97f4a7c15)
		for r, k := x, 0; k < 4; r, k = r>>16, k+1 {
			at := (r & 0x7fff) * dim >> 15
			// The sign bit of the entry is moved onto the weight, which avoids a branch that the processor cannot
			// predict.
			row[at] += math.Float32frombits(math.Float32bits(weight) ^ uint32(r>>15&1)<<31)
		}
	}
}

// WordsDim is the number of values that the words of a text are hashed to. Half as many separate texts nearly as well.
const WordsDim = 2048

// hashWords adds a text's words and pairs of neighbours to row, as a vector of length weight. A word counts by the
// logarithm of its number and by the root of its letters: long words are rare, and say more. Weights that were fitted to
// public text separate texts no better.
func hashWords(row []float32, text string, weight float32) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.features(text, false)
	for _, f := range s.found {
		project(row, f.hash, logCount(f.count)*float32(math.Sqrt(float64(f.letters))))
	}
	normalize(row)
	for i := range row {
		row[i] *= weight
	}
}

// mostLetters bounds by how many letters a feature counts.
const mostLetters = 8

func logCount(n uint32) float32 {
	if n == 1 {
		return 1
	}
	return 1 + float32(math.Log(float64(n)))
}

// normalize scales v to unit length; a vector of zeros stays and returns false.
func normalize(v []float32) bool {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return false
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
	return true
}

func bucket(hash uint64) uint64 { return hash >> (64 - bucketBits) }

// mix is the finaliser of splitmix64: every output bit depends on every input bit.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// feature is a feature of a text and its count.
type feature struct {
	hash    uint64
	count   uint32
	letters uint32 // bytes of a word or a pair, at most mostLetters
}

// scratch collects a text's features in a small open-addressing table; incrementing the epoch empties it.
type scratch struct {
	found []feature
	table []slot
	epoch uint32
	word  []byte
}

type slot struct {
	hash  uint64
	epoch uint32
	at    uint32
}

var scratches = sync.Pool{New: func() any { return &scratch{table: make([]slot, 1<<12)} }}

// features fills found with the features of text in the order of their first occurrence: words in lower case (runs of
// letters and digits), runs of other signs, pairs of neighbours, and with grams n-grams of the bytes of each word with its
// ends marked.
func (s *scratch) features(text string, grams bool) {
	s.found = s.found[:0]
	s.epoch++
	if s.epoch == 0 {
		clear(s.table)
		s.epoch = 1
	}
	previous, before := uint64(0), 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if space(r) {
			i += size
			continue
		}
		inside := wordRune(r)
		s.word = append(s.word[:0], '<')
		hash := uint64(len("word"))
		for i < len(text) {
			r, size = utf8.DecodeRuneInString(text[i:])
			if space(r) || wordRune(r) != inside {
				break
			}
			start := len(s.word)
			if r < utf8.RuneSelf {
				if 'A' <= r && r <= 'Z' {
					r += 'a' - 'A'
				}
				s.word = append(s.word, byte(r))
			} else {
				s.word = utf8.AppendRune(s.word, unicode.ToLower(r))
			}
			for _, b := range s.word[start:] {
				hash = bits.RotateLeft64(hash^uint64(b), 23) * 0x9e3779b97f4a7c15
			}
			i += size
		}
		s.word = append(s.word, '>')
		hash = mix(hash)
		letters := len(s.word) - len("<>")
		s.add(hash, letters)
		if previous != 0 {
			s.add(mix(previous*3+hash), before+letters)
		}
		previous, before = hash, letters
		if inside && grams {
			s.grams()
		}
	}
}

// grams adds the n-grams of the word: up to seven bytes fit one integer with their number.
func (s *scratch) grams() {
	for from := range s.word {
		gram := uint64(0)
		for n := 1; n <= gramMax && from+n <= len(s.word); n++ {
			gram = gram<<8 | uint64(s.word[from+n-1])
			if n >= gramMin {
				s.add(mix(gram|uint64(n)<<56), n)
			}
		}
	}
}

func (s *scratch) add(hash uint64, letters int) {
	mask := uint64(len(s.table) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		entry := &s.table[i]
		if entry.epoch != s.epoch {
			*entry = slot{hash, s.epoch, uint32(len(s.found))}
			s.found = append(s.found, feature{hash, 1, uint32(min(letters, mostLetters))})
			if len(s.found)*2 > len(s.table) {
				s.grow()
			}
			return
		}
		if entry.hash == hash {
			s.found[entry.at].count++
			return
		}
	}
}

func (s *scratch) grow() {
	s.table = make([]slot, 2*len(s.table))
	s.epoch = 1
	mask := uint64(len(s.table) - 1)
	for at, f := range s.found {
		i := f.hash & mask
		for s.table[i].epoch == s.epoch {
			i = (i + 1) & mask
		}
		s.table[i] = slot{f.hash, s.epoch, uint32(at)}
	}
}

func wordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func space(r rune) bool {
	if r < utf8.RuneSelf {
		return r <= ' ' || r == 0x7f
	}
	return unicode.IsSpace(r)
}
