package evolution

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sort"

	"popri/internal/numeric"
)

// threshold returns max(0, v − h) for each released count v, where h is in votes (Lin et al. 2024, algorithm 2;
// nn_histogram.py of PrE-Text; dp_counter.py of Aug-PE).
func threshold(votes []float64, h float64) []float64 {
	return numeric.Map(votes, func(v float64) float64 { return max(0, v-h) })
}

// Selection says which samples of a population were selected.
type Selection struct {
	// Copies has for each sample how often it was selected: 0 for most, above 1 where samples are drawn with
	// replacement.
	Copies []int
	// Kept says that no count exceeded the threshold: the selected samples are the round before's.
	Kept bool
}

// Indices returns the selected samples in ascending order, each as often as it was selected.
func (s Selection) Indices() []int {
	var out []int
	for i, copies := range s.Copies {
		for range copies {
			out = append(out, i)
		}
	}
	return out
}

// Len returns how many were selected, copies counted.
func (s Selection) Len() int {
	n := 0
	for _, copies := range s.Copies {
		n += copies
	}
	return n
}

// Survivors returns how many different samples were selected.
func (s Selection) Survivors() int {
	n := 0
	for _, copies := range s.Copies {
		if copies > 0 {
			n++
		}
	}
	return n
}

// resample draws n samples with replacement in proportion to counts, which are at least 0: a multinomial draw
// (PrE-Text; "prob" in the published code of Aug-PE). Where all counts are 0 it keeps the first n samples, which are
// those that the round before selected (see [Evolution.Next]).
func resample(counts []float64, n int, random *rand.Rand) Selection {
	s := selection(counts, n)
	if s.Kept {
		return s
	}
	cumulative := make([]float64, len(counts))
	total := 0.0
	for i, c := range counts {
		total += c
		cumulative[i] = total
	}
	for range n {
		// The product is below total, as Float64 is at most 1 − 2⁻⁵³. A sample with count 0 never is the first above
		// it.
		at := random.Float64() * total
		s.Copies[sort.Search(len(cumulative), func(i int) bool { return cumulative[i] > at })]++
	}
	return s
}

// rank selects the n samples with the highest counts, ties to the lower index ("rank" in the published code of Aug-PE).
// Where all counts are 0 it keeps the first n samples, as resample does.
func rank(counts []float64, n int) Selection {
	s := selection(counts, n)
	if s.Kept {
		return s
	}
	for _, i := range numeric.SortedIndices(len(counts), func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })[:n] {
		s.Copies[i] = 1
	}
	return s
}

// selection keeps the first n samples where all counts are 0, and else is empty.
func selection(counts []float64, n int) Selection {
	s := Selection{Copies: make([]int, len(counts)), Kept: slices.Max(counts) == 0}
	if s.Kept {
		copy(s.Copies, slices.Repeat([]int{1}, n))
	}
	return s
}
