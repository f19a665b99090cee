package evolution

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"

	"popri/internal/numeric"
)

// threshold returns max(0, v − h) for each released count v, where h is in votes and at least 0 (Lin et al. 2024,
// algorithm 2; nn_histogram.py of PrE-Text; dp_counter.py of Aug-PE). A count that is not finite is an error.
func threshold(votes []float64, h float64) ([]float64, error) {
	if !(h >= 0) || math.IsInf(h, 1) {
		return nil, fmt.Errorf("evolution: the threshold is %g, want a number of at least 0", h)
	}
	counts := make([]float64, len(votes))
	for i, v := range votes {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("evolution: sample %d has %g votes", i, v)
		}
		counts[i] = max(0, v-h)
	}
	return counts, nil
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
func resample(counts []float64, n int, random *rand.Rand) (Selection, error) {
	s, empty, err := selection(counts, n)
	if err != nil || empty {
		return s, err
	}
	cumulative := make([]float64, len(counts))
	total := 0.0
	for i, c := range counts {
		total += c
		cumulative[i] = total
	}
	if math.IsInf(total, 1) {
		return Selection{}, fmt.Errorf("evolution: the sum of the counts is too large")
	}
	for range n {
		// The product is below total, as Float64 is at most 1 − 2⁻⁵³. A sample with count 0 never is the first above
		// it.
		at := random.Float64() * total
		s.Copies[sort.Search(len(cumulative), func(i int) bool { return cumulative[i] > at })]++
	}
	return s, nil
}

// rank selects the n samples with the highest counts, ties to the lower index ("rank" in the published code of Aug-PE).
// Where all counts are 0 it keeps the first n samples, as resample does.
func rank(counts []float64, n int) (Selection, error) {
	s, empty, err := selection(counts, n)
	if err != nil || empty {
		return s, err
	}
	for _, i := range numeric.SortedIndices(len(counts), func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })[:n] {
		s.Copies[i] = 1
	}
	return s, nil
}

// selection checks the counts. Where all are 0 it returns true and the selection that keeps the first n samples, else
// an empty one.
func selection(counts []float64, n int) (s Selection, empty bool, err error) {
	if n < 1 || n > len(counts) {
		return s, false, fmt.Errorf("evolution: cannot select %d of %d samples", n, len(counts))
	}
	empty = true
	for i, c := range counts {
		if !(c >= 0) || math.IsInf(c, 1) {
			return s, false, fmt.Errorf("evolution: sample %d has the count %g, want a number of at least 0", i, c)
		}
		empty = empty && c == 0
	}
	s = Selection{Copies: make([]int, len(counts)), Kept: empty}
	if empty {
		for i := range n {
			s.Copies[i] = 1
		}
	}
	return s, empty, nil
}
