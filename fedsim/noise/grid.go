package noise

import (
	"fmt"
	"math"
	"math/bits"

	"gonum.org/v1/gonum/floats"

	"popri/internal/numeric"
)

// Grid says how a sum of bounded vectors is rounded and noised.
type Grid struct {
	// Step is the distance of neighbouring values: a power of two.
	Step float64
	// Sensitivity is how far, in the L2 norm, the rounded sum moves at most with one client: the norm bound, enlarged
	// for the rounding.
	Sensitivity float64
	// Units is the noise's standard deviation in steps: the noise multiplier · Sensitivity, rounded up; 0 for no noise.
	Units uint64
}

const (
	// fineness is how many binary digits of the noise are above the grid: enough that the discrete distribution is as
	// good as the continuous one and that rounding costs next to nothing, and so few that sums over millions of clients
	// stay below 2^53 steps.
	fineness = 30
	// clipSlack covers the rounding of a norm when a vector is clipped.
	clipSlack = 1e-9
	// leastUnits is the coarsest grid that is still taken for continuous.
	leastUnits = 1 << 16
	// leastBound is a bound whose square is far from underflow: below, a longer vector can pass for one of norm 0.
	leastBound = 1e-100
)

// NewGrid chooses the grid for sums of vectors of n values and norm at most bound, over the given number of clients,
// with noise of standard deviation sigma·bound.
//
// Rounding moves each of n values of a sum by half a step, in opposite directions for neighbours in the worst case:
// √n·step in all. As much again is allowed for the floating-point arithmetic of a sum that is computed at once instead
// of adding up the clients' rounded vectors.
func NewGrid(sigma, bound float64, n, clients int) (Grid, error) {
	if !(sigma >= 0) || !(bound >= leastBound) || math.IsInf(sigma*bound, 0) || n < 1 || clients < 0 {
		return Grid{}, fmt.Errorf("noise: a grid for noise %g of %g, %d values and %d clients", sigma, bound, n, clients)
	}
	// A sum and its noise must be whole numbers of steps that a float64 can hold.
	step := math.Ldexp(1, math.Ilogb(float64(max(1, clients))*bound+64*sigma*bound)-51)
	if math.IsInf(step, 0) {
		return Grid{}, fmt.Errorf("noise: the sum of %d clients' vectors of norm %g is no number", clients, bound)
	}
	if sigma == 0 {
		return Grid{Step: step, Sensitivity: bound}, nil
	}
	step = math.Max(step, math.Ldexp(1, math.Ilogb(sigma*bound)-fineness))
	g := Grid{Step: step, Sensitivity: bound*(1+clipSlack) + 2*math.Sqrt(float64(n))*step}
	units := math.Ceil(sigma * g.Sensitivity / step)
	if !(units >= leastUnits && units <= maxSigma) {
		return Grid{}, fmt.Errorf("noise: noise %g of %g is too small for the sum of %d clients: %g steps of a "+
			"grid that both fit on", sigma, bound, clients, units)
	}
	g.Units = uint64(units)
	return g, nil
}

// Round returns v in steps.
func (g Grid) Round(v float64) int64 { return int64(math.RoundToEven(v / g.Step)) }

// Value returns the number that is k steps from 0.
func (g Grid) Value(k int64) float64 { return float64(k) * g.Step }

// Values returns the numbers at steps from 0, rounded to float32 if narrow.
func (g Grid) Values(steps []int64, narrow bool) []float64 {
	out := make([]float64, len(steps))
	for i, k := range steps {
		if out[i] = g.Value(k); narrow {
			out[i] = float64(float32(out[i]))
		}
	}
	return out
}

// RoundAll returns a sum in steps.
func (g Grid) RoundAll(sum []float64) []int64 { return numeric.Map(sum, g.Round) }

// Bits is the number of bits of a value of a vector of norm at most bound, in steps, with its sign: from 1 − 2^(bits−1)
// to 2^(bits−1).
func (g Grid) Bits(bound float64) int { return 1 + bits.Len64(uint64(math.Ceil(bound/g.Step))-1) }

// AddRounded adds a client's vector in steps to a sum, which an error leaves as it is. A value that is not finite, or a
// vector longer than the bound, is an error: a client with a broken encoder sends nothing. A value of −2^(bits−1)
// steps, which is the negative bound itself, is moved by one step into the range of [Grid.Bits].
func (g Grid) AddRounded(sum []int64, vector []float64, bound float64) error {
	if norm := math.Sqrt(floats.Dot(vector, vector)); !(norm <= bound*(1+clipSlack)) {
		return fmt.Errorf("noise: a vector of norm %g, want at most %g", norm, bound)
	}
	end := int64(1) << (g.Bits(bound) - 1)
	for i, v := range vector {
		sum[i] += max(1-end, min(g.Round(v), end))
	}
	return nil
}

// RoundBounded returns a client's vector in steps; see [Grid.AddRounded].
func (g Grid) RoundBounded(vector []float64, bound float64) ([]int64, error) {
	out := make([]int64, len(vector))
	return out, g.AddRounded(out, vector, bound)
}

// Add adds discrete Gaussian noise of the grid's standard deviation to a sum in steps, modulo 2^64.
func Add[T int64 | uint64](sum []T, g Grid, source Source) error {
	if g.Units == 0 {
		return nil
	}
	draw, err := NewGaussian(source, g.Units)
	if err != nil {
		return err
	}
	for i := range sum {
		sum[i] += T(draw.Next())
	}
	return nil
}
