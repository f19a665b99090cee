package fedsim

import (
	crand "crypto/rand"
	"fmt"
	"math"
	"math/rand/v2"

	"popri/internal/rng"
	"popri/scoring"
)

// slack enlarges the noise against the rounding of norms when vectors are clipped.
const slack = 1 + 1e-9

// aggregator is one way to a noised sum.
type aggregator func(samples *scoring.Samples, means scoring.Means, std float64, noise *gaussian) ([]float64, error)

var aggregators = map[Path]aggregator{Aggregate: aggregate, PerClient: perClient}

// aggregate sums by the fast path and adds noise of standard deviation std to each value.
func aggregate(samples *scoring.Samples, means scoring.Means, std float64, noise *gaussian) ([]float64, error) {
	sum, err := samples.Sum(means)
	if err != nil {
		return nil, err
	}
	for i := range sum {
		sum[i] += std * noise.next()
	}
	return sum, nil
}

// perClient lets every client add its share of the noise to its own vector.
func perClient(samples *scoring.Samples, means scoring.Means, std float64, noise *gaussian) ([]float64, error) {
	sum := make([]float64, samples.Len())
	share := std / math.Sqrt(float64(means.Clients))
	for i := range means.Clients {
		v, err := samples.ContributionOfMean(means.Row(i))
		if err != nil {
			return nil, err
		}
		for j := range v {
			sum[j] += v[j] + share*noise.next()
		}
	}
	return sum, nil
}

// gaussian draws from the standard normal distribution by Box and Muller's method, from uniform numbers of full
// precision: the library's ziggurat has 2^39 outcomes in all, too coarse to hide a sum behind.
type gaussian struct {
	source *rand.Rand
	spare  float64
	full   bool
}

// newNoise returns the noise of a round: from the system's entropy through ChaCha8, or, insecurely, from a seed.
func newNoise(seed *uint64, round int) *gaussian {
	if seed != nil {
		return &gaussian{source: rng.New(*seed, "noise", fmt.Sprint(round))}
	}
	var key [32]byte
	crand.Read(key[:]) // never fails: it ends the program instead
	return &gaussian{source: rand.New(rand.NewChaCha8(key))}
}

func (g *gaussian) next() float64 {
	if g.full {
		g.full = false
		return g.spare
	}
	radius := math.Sqrt(-2 * math.Log(g.uniform()))
	sin, cos := math.Sincos(2 * math.Pi * g.source.Float64())
	g.spare, g.full = radius*sin, true
	return radius * cos
}

// uniform returns a number in (0, 1] whose small values are as fine as floating point allows: 53 bits after a
// geometric number of leading zeros, so that tails are not cut off.
func (g *gaussian) uniform() float64 {
	exponent := -53
	bits := g.source.Uint64()
	for bits>>11 == 0 && exponent > -1000 {
		exponent -= 53
		bits = g.source.Uint64()
	}
	return math.Ldexp(float64(bits>>11), exponent) + math.Ldexp(g.source.Float64(), exponent)
}

// grid is the spacing to which a noised sum is rounded: a power of two about 2^-24 of the noise.
func grid(std float64) float64 {
	if std == 0 {
		return 0
	}
	return math.Ldexp(1, math.Ilogb(std)-24)
}

func roundTo(sum []float64, step float64) {
	if step == 0 {
		return
	}
	for i := range sum {
		sum[i] = math.Round(sum[i]/step) * step
	}
}
