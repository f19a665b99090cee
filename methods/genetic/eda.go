package genetic

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"popri/model/embedding"
)

// The published settings of EDA, but for top, which the paper does not give.
const (
	smoothing = 0.1 // α
	top       = 5   // R
)

// estimate is algorithm 2: what a normal distribution with independent coordinates, from which the next population is
// drawn, has of the parents, in falling order of their noised counts. With α the smoothing and R the number of the
// best,
//
//	μ' = (1−α)·mean(e) + α·(e_1 + e_2 − e_last)
//	σ' = (1−α)·sd(e)   + α·sd(e_1 … e_R)             standard deviations divide by the number
//
// One parent is the first, the second and the last.
func estimate(parents embedding.Matrix, alpha float64, best int) (mean, sd []float64, err error) {
	n := parents.Rows
	if n == 0 {
		return nil, nil, fmt.Errorf("genetic: there are no parents")
	}
	mean, sd = make([]float64, parents.Dim), make([]float64, parents.Dim)
	best = min(best, n)
	for j := range mean {
		at := func(i int) float64 { return float64(parents.Row(i)[j]) }
		m, s := moments(at, n)
		_, t := moments(at, best)
		mean[j] = (1-alpha)*m + alpha*(at(0)+at(min(1, n-1))-at(n-1))
		sd[j] = (1-alpha)*s + alpha*t
	}
	return mean, sd, nil
}

// moments are mean and standard deviation of the first n values.
func moments(at func(int) float64, n int) (mean, sd float64) {
	for i := range n {
		mean += at(i) / float64(n)
	}
	for i := range n {
		sd += (at(i) - mean) * (at(i) - mean) / float64(n)
	}
	return mean, math.Sqrt(sd)
}

// next draws the next population by [estimate], scaled to unit length as the encoder's vectors are.
func next(parents embedding.Matrix, children int, random *rand.Rand) (embedding.Matrix, error) {
	mean, sd, err := estimate(parents, smoothing, top)
	if err != nil {
		return embedding.Matrix{}, err
	}
	out := embedding.NewMatrix(children, parents.Dim)
	for i := range children {
		row, squares, v := out.Row(i), 0.0, make([]float64, parents.Dim)
		for j := range v {
			v[j] = mean[j] + sd[j]*random.NormFloat64()
			squares += v[j] * v[j]
		}
		length := math.Sqrt(squares)
		length = cmp.Or(length, 1)
		for j := range v {
			row[j] = float32(v[j] / length)
		}
	}
	return out, nil
}
