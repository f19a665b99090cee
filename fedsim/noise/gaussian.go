package noise

import (
	"fmt"
	"math/bits"
)

// maxSigma is the largest parameter of a [Gaussian]: its square, doubled, fits a word.
const maxSigma = 1<<31 + 1<<29

// Gaussian draws from the discrete Gaussian distribution. It is not safe for concurrent use.
type Gaussian struct {
	coins
	sigma   uint64
	divisor uint64 // 2σ²
}

// NewGaussian returns a sampler with parameter sigma, from 1 to [maxSigma]. Its standard deviation differs from sigma
// by parts in e^(−2π²σ²).
func NewGaussian(source Source, sigma uint64) (*Gaussian, error) {
	if sigma < 1 || sigma > maxSigma {
		return nil, fmt.Errorf("noise: a discrete Gaussian of parameter %d, want 1 to %d", sigma, uint64(maxSigma))
	}
	return &Gaussian{coins{source}, sigma, 2 * sigma * sigma}, nil
}

// Next draws a number (algorithm 3, with t = σ): a discrete Laplace number y of scale σ is kept with probability
// exp(−(|y| − σ)²/2σ²). About two thirds are.
func (g *Gaussian) Next() int64 {
	for {
		y, negative := g.laplace()
		d := y - g.sigma
		if y < g.sigma {
			d = g.sigma - y
		}
		high, low := bits.Mul64(d, d)
		whole, rest := bits.Div64(high, low, g.divisor)
		if g.all(whole) && g.decays(rest, g.divisor) {
			if negative {
				return -int64(y)
			}
			return int64(y)
		}
	}
}

// laplace draws the size and the sign of a number with P ∝ exp(−|y|/σ) (algorithm 2).
func (g *Gaussian) laplace() (y uint64, negative bool) {
	for {
		u := Below(g.source, g.sigma)
		if !g.decays(u, g.sigma) {
			continue
		}
		v := uint64(0)
		for g.decays1() {
			v++
		}
		y = u + g.sigma*v
		if negative = g.source.Uint64()>>63 == 1; negative && y == 0 {
			continue // else 0 would occur twice as often
		}
		return y, negative
	}
}

// below maps a uniform word to 0…n−1 (Lemire 2019), or refuses one of those that would favour some.
func below(word, n uint64) (uint64, bool) {
	high, low := bits.Mul64(word, n)
	return high, low >= n || low >= -n%n
}
