package clients

import (
	"math/bits"

	"gonum.org/v1/gonum/stat"
)

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
