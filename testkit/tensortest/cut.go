// Package tensortest holds what tests of sampling in several packages compare with.
package tensortest

import (
	"cmp"
	"math"

	"popri/internal/numeric"
)

// SortedCut returns the ids that top-k k and then top-p p keep of a row of logits, by sorting all of them.
func SortedCut(row []float32, k int, p, temperature float64) map[int]bool {
	ids := numeric.SortedIndices(len(row), func(a, b int) int { return cmp.Compare(row[b], row[a]) })
	if k > 0 && k < len(ids) {
		ids = ids[:k]
	}
	if p > 0 && p < 1 {
		total, sum := 0.0, 0.0
		for _, i := range ids {
			total += math.Exp((float64(row[i]) - float64(row[ids[0]])) / temperature)
		}
		for n, i := range ids {
			if sum += math.Exp((float64(row[i]) - float64(row[ids[0]])) / temperature); sum >= p*total {
				ids = ids[:n+1]
				break
			}
		}
	}
	keep := map[int]bool{}
	for _, i := range ids {
		keep[i] = true
	}
	return keep
}
