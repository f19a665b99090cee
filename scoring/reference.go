package scoring

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"popri/model/embedding"
)

// Unit returns m with rows scaled to unit length; rows of zeros stay. Cosines of vectors that an encoder did not
// normalise need it first.
func Unit(m embedding.Matrix) embedding.Matrix {
	out := embedding.NewMatrix(m.Rows, m.Dim)
	for i := range m.Rows {
		row := m.Row(i)
		if scale := inverseLength(row); scale > 0 {
			for j, v := range row {
				out.Row(i)[j] = float32(float64(v) * scale)
			}
		}
	}
	return out
}

func inverseLength(v []float32) float64 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return 0
	}
	return 1 / math.Sqrt(sum)
}

// standardize subtracts the mean and divides by the population standard deviation, in place. A deviation at rounding
// level, at most 1e-12·max(1, |mean|), gives zeros and false: such a client prefers nothing.
func standardize(v []float64) bool {
	mean, std := moments(v)
	if flat(mean, std) {
		clear(v)
		return false
	}
	for i := range v {
		v[i] = (v[i] - mean) / std
	}
	return true
}

func flat(mean, std float64) bool { return !(std > 1e-12*max(1, math.Abs(mean))) }

func moments(v []float64) (mean, std float64) {
	if len(v) == 0 {
		return 0, 0
	}
	for _, x := range v {
		mean += x
	}
	mean /= float64(len(v))
	var squares float64
	for _, x := range v {
		squares += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(squares / float64(len(v)))
}

// Clip scales v to L2 norm c if it is longer, in place, and returns the norm before.
func Clip(v []float64, c float64) float64 {
	norm := length(v)
	if norm > c {
		floats.Scale(c/norm, v)
	}
	return norm
}

func length(v []float64) float64 { return math.Sqrt(floats.Dot(v, v)) }
