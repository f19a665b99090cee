package metrics

import (
	"fmt"
	"math"
	"slices"

	"popri/internal/parallel"
)

// mostMatched bounds the points of each cloud that [Gaussian.Wasserstein] matches: its work grows with their number to
// the power of three, and is half a second for this number.
const mostMatched = 500

// Wasserstein is the Wasserstein distance W1 of the clouds, with the L2 distance of points as cost: the mean distance
// of points of one to points of the other in the best matching, which has each point once. As many points of each are
// matched, 500 at most, at even steps of their order. Points of the same distribution are apart, too, the more the
// fewer they are and the more dimensions they have, so it says something only next to another distance of as many
// points.
func (g *Gaussian) Wasserstein(other *Gaussian) (float64, error) {
	dim := g.Dim()
	if dim != other.Dim() {
		return 0, fmt.Errorf("metrics: points of %d and of %d dimensions", dim, other.Dim())
	}
	n := min(len(g.points)/dim, len(other.points)/dim, mostMatched)
	row := func(points []float32, i int) []float32 {
		at := i * (len(points) / dim) / n
		return points[at*dim : (at+1)*dim]
	}
	costs := make([]float64, n*n)
	parallel.Each(n, func(i int) {
		x := row(g.points, i)
		for j := range n {
			costs[i*n+j] = math.Sqrt(squaredDistance(x, row(other.points, j), math.Inf(1)))
		}
	})
	return match(costs, n) / float64(n), nil
}

// match returns the least sum of costs [n, n] of a matching of rows to columns, by shortest augmenting paths (Jonker
// and Volgenant 1987): rows are matched one after another, and the potentials of rows and columns keep all reduced
// costs at or above 0.
func match(costs []float64, n int) float64 {
	rows, columns := make([]float64, n), make([]float64, n) // potentials
	matched := slices.Repeat([]int{-1}, n)                  // the row of each column, -1 for none
	for first := range n {
		length := slices.Repeat([]float64{math.Inf(1)}, n) // of the paths to columns
		before, done := make([]int, n), make([]bool, n)
		i, column, reached := first, -1, 0.0
		for i >= 0 {
			next, least := -1, math.Inf(1)
			for j := range n {
				if done[j] {
					continue
				}
				if l := reached + costs[i*n+j] - rows[i] - columns[j]; l < length[j] {
					length[j], before[j] = l, column
				}
				if length[j] < least {
					next, least = j, length[j]
				}
			}
			column, reached = next, least
			done[column] = true
			i = matched[column]
		}
		// Rows and columns on the way take part of the length that was not needed for them.
		rows[first] += reached
		for j := range n {
			if done[j] && j != column {
				rows[matched[j]] += reached - length[j]
				columns[j] -= reached - length[j]
			}
		}
		for column >= 0 {
			from := before[column]
			if from < 0 {
				matched[column] = first
			} else {
				matched[column] = matched[from]
			}
			column = from
		}
	}
	sum := 0.0
	for j, i := range matched {
		sum += costs[i*n+j]
	}
	return sum
}
