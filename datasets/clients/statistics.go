package clients

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gonum.org/v1/gonum/stat"

	"popri/datasets"
	"popri/datasets/minhash"
	"popri/datasets/records"
)

// Statistics describes the sound texts of a file for its owner, without noise: how long they are, how many look like
// junk, and how many repeat another one.
type Statistics struct {
	Texts          int       `json:"texts"`
	Words          Quantiles `json:"words"`            // of a text
	TextsPerClient Quantiles `json:"texts_per_client"` // of a client that has some
	Junk           []Junk    `json:"junk"`
	Repeated       int       `json:"repeated"`      // equal to an earlier text but for white space and the case of letters
	NearRepeated   int       `json:"near_repeated"` // others, similar to an earlier text by MinHash, of those compared
	Compared       int       `json:"compared"`      // texts, at even distances; no more than mostCompared
}

// Junk counts the texts with something that people seldom write.
type Junk struct {
	Kind  string `json:"kind"`
	Texts int    `json:"texts"`
}

// Quantiles has the least, the greatest and, between them, the values below which lie 5, 50 and 95 %.
type Quantiles struct {
	Min    int `json:"min"`
	P5     int `json:"p5"`
	Median int `json:"median"`
	P95    int `json:"p95"`
	Max    int `json:"max"`
}

func quantilesOf(values []int) (q Quantiles) {
	if len(values) == 0 {
		return q
	}
	slices.Sort(values)
	at := func(share float64) int { return values[int(share*float64(len(values)-1)+0.5)] }
	return Quantiles{values[0], at(0.05), at(0.5), at(0.95), values[len(values)-1]}
}

// mostCompared bounds the texts that are compared for similarity: the index holds about 1.2 kB for each.
const mostCompared = 50_000

// longRun is the length of a run of one character that nobody writes.
const longRun = 20

// junk are the kinds of junk, each with its test.
var junk = []struct {
	kind string
	has  func(string) bool
}{
	{"tags of HTML", records.HasTags},
	{"U+FFFD, the sign for a damaged character",
		func(s string) bool { return strings.ContainsRune(s, utf8.RuneError) }},
	{"control characters", func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
		})
	}},
	{"20 times one character or more in a row", func(s string) bool {
		run, last := 0, rune(-1)
		for _, r := range s {
			if r != last || unicode.IsSpace(r) {
				run, last = 0, r
			}
			if run++; run == longRun {
				return true
			}
		}
		return false
	}},
	{"fewer letters than other characters",
		func(s string) bool { letters, all := lettersOf(s); return 2*letters < all }},
}

// statisticsOf describes the texts of clients.
func statisticsOf(list []Client) *Statistics {
	s := &Statistics{}
	var words, perClient []int
	for _, j := range junk {
		s.Junk = append(s.Junk, Junk{Kind: j.kind})
	}
	for _, c := range list {
		s.Texts += len(c.Texts)
	}
	stride := s.Texts/mostCompared + 1
	seen, near := exactBorder{}, minhash.NewIndex()
	for _, c := range list {
		if len(c.Texts) > 0 {
			perClient = append(perClient, len(c.Texts))
		}
		for _, t := range c.Texts {
			words = append(words, datasets.CountWords(t))
			for i := range junk {
				if junk[i].has(t) {
					s.Junk[i].Texts++
				}
			}
			compared := len(words)%stride == 0
			if compared {
				s.Compared++
			}
			if _, again := seen.find(t); again {
				s.Repeated++
				continue
			}
			seen.add(t, 0)
			if !compared {
				continue
			}
			signature := minhash.Sign(t)
			if _, again := near.Find(signature); again {
				s.NearRepeated++
			} else {
				near.Add(signature, 0)
			}
		}
	}
	s.Words, s.TextsPerClient = quantilesOf(words), quantilesOf(perClient)
	return s
}

// Sizes says how much text each of some clients has (POPri, Table 5 and Figure 10).
type Sizes struct {
	// Texts and TextsSD are the mean number of texts of a client and its standard deviation (with n−1; 0 for one
	// client).
	Texts   float64 `json:"texts_mean"`
	TextsSD float64 `json:"texts_sd"`
	// Histogram[k] is the number of clients with 2^(k−1) to 2^k − 1 words or tokens in all; Histogram[0] is of clients
	// with none.
	Histogram []int `json:"histogram"`
}

// SizesOf describes clients; count is the number of words or tokens of a text.
func SizesOf(clients []Client, count func(string) int) Sizes {
	var s Sizes
	var texts []float64
	for _, c := range clients {
		texts = append(texts, float64(len(c.Texts)))
		n := 0
		for _, t := range c.Texts {
			n += count(t)
		}
		k := bits.Len(uint(n))
		for len(s.Histogram) <= k {
			s.Histogram = append(s.Histogram, 0)
		}
		s.Histogram[k]++
	}
	if len(texts) > 1 {
		s.Texts, s.TextsSD = stat.MeanStdDev(texts, nil)
	} else if len(texts) == 1 {
		s.Texts = texts[0]
	}
	return s
}
