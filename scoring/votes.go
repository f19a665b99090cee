package scoring

import (
	"fmt"
	"math"
	"slices"

	"popri/embedding"
)

// Metric is how far apart two embeddings are.
type Metric string

const (
	Cosine Metric = "cosine" // minus the cosine of the angle, whatever the lengths
	L2     Metric = "l2"     // Euclidean distance
)

// Nearest returns for each text the indices of its q nearest samples, or furthest where far is set, nearest (furthest)
// first, ties to the lower index.
func Nearest(samples, texts embedding.Matrix, metric Metric, q int, far bool) ([][]int, error) {
	if metric != Cosine && metric != L2 {
		return nil, fmt.Errorf("scoring: metric is %q, want %q or %q", metric, Cosine, L2)
	}
	if samples.Dim != texts.Dim {
		return nil, fmt.Errorf("scoring: samples of %d dimensions, texts of %d", samples.Dim, texts.Dim)
	}
	if q < 1 || q > samples.Rows {
		return nil, fmt.Errorf("scoring: %d nearest of %d samples", q, samples.Rows)
	}
	out := make([][]int, texts.Rows)
	parallelGrain(texts.Rows, 8, func(from, to int) {
		distances := make([]float64, samples.Rows)
		order := make([]int, samples.Rows)
		for t := from; t < to; t++ {
			for i := range distances {
				distances[i] = distance(samples.Row(i), texts.Row(t), metric)
				if far {
					distances[i] = -distances[i]
				}
				order[i] = i
			}
			slices.SortFunc(order, func(a, b int) int {
				switch {
				case distances[a] < distances[b]:
					return -1
				case distances[a] > distances[b]:
					return 1
				}
				return a - b
			})
			out[t] = slices.Clone(order[:q])
		}
	})
	return out, nil
}

func distance(a, b []float32, metric Metric) float64 {
	var sum float64
	if metric == L2 {
		for j, x := range a {
			d := float64(x) - float64(b[j])
			sum += d * d
		}
		return math.Sqrt(sum)
	}
	for j, x := range a {
		sum += float64(x) * float64(b[j])
	}
	return -sum * inverseLength(a) * inverseLength(b)
}

// Votes counts for each of n samples the votes of one client's texts, given their nearest samples: each text gives 1,
// 1/2, 1/4, … to its first, second, third, … choice.
func Votes(nearest [][]int, n int) []float64 {
	votes := make([]float64, n)
	for _, choices := range nearest {
		weight := 1.0
		for _, i := range choices {
			votes[i] += weight
			weight /= 2
		}
	}
	return votes
}
