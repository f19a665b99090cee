package numeric

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"popri/internal/parallel"
)

// mostSteps bounds the steps of [Cluster].
const mostSteps = 100

// Cluster assigns each row to one of k clusters: Lloyd's algorithm from k-means++ (Arthur and Vassilvitskii 2007). A
// cluster that loses all its rows stays where it is.
func Cluster(points *mat.Dense, k int, random *rand.Rand) []int {
	n, dim := points.Dims()
	k = min(k, n)
	centres := mat.NewDense(k, dim, nil)
	distance := func(i, c int) float64 {
		sum := 0.0
		for j, v := range points.RawRowView(i) {
			d := v - centres.RawRowView(c)[j]
			sum += d * d
		}
		return sum
	}
	least := make([]float64, n)
	next := random.IntN(n)
	for c := range k {
		copy(centres.RawRowView(c), points.RawRowView(next))
		parallel.Each(n, func(i int) {
			if d := distance(i, c); c == 0 || d < least[i] {
				least[i] = d
			}
		})
		at := random.Float64() * floats.Sum(least)
		for next = 0; next < n-1 && at >= least[next]; next++ {
			at -= least[next]
		}
	}
	assigned := make([]int, n)
	for range mostSteps {
		moved := make([]bool, n)
		parallel.Each(n, func(i int) {
			best, at := math.Inf(1), 0
			for c := range k {
				if d := distance(i, c); d < best {
					best, at = d, c
				}
			}
			moved[i], assigned[i] = assigned[i] != at, at
		})
		if !slices.Contains(moved, true) {
			break
		}
		counts, sums := make([]float64, k), mat.NewDense(k, dim, nil)
		for i, c := range assigned {
			counts[c]++
			floats.Add(sums.RawRowView(c), points.RawRowView(i))
		}
		for c, count := range counts {
			if count > 0 {
				floats.ScaleTo(centres.RawRowView(c), 1/count, sums.RawRowView(c))
			}
		}
	}
	return assigned
}
