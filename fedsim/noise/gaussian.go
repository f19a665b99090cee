package noise

import (
	"fmt"
	"math/big"
	"math/bits"
)

// MaxSigma is the largest parameter of a [Gaussian]: its square, doubled, fits a word.
const MaxSigma = 1<<31 + 1<<29

// Gaussian draws from the discrete Gaussian distribution. It is not safe for concurrent use.
type Gaussian struct {
	source  Source
	sigma   uint64
	divisor uint64 // 2σ²
}

// NewGaussian returns a sampler with parameter sigma, from 1 to [MaxSigma]. Its standard deviation differs from sigma
// by parts in e^(−2π²σ²).
func NewGaussian(source Source, sigma uint64) (*Gaussian, error) {
	if sigma < 1 || sigma > MaxSigma {
		return nil, fmt.Errorf("noise: a discrete Gaussian of parameter %d, want 1 to %d", sigma, uint64(MaxSigma))
	}
	return &Gaussian{source, sigma, 2 * sigma * sigma}, nil
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

// all is true with probability e^(−n).
func (g *Gaussian) all(n uint64) bool {
	for range n {
		if !g.decays1() {
			return false
		}
	}
	return true
}

// decays is true with probability e^(−a/b), for a < b (algorithm 1): in a row of coins with probabilities γ, γ/2, γ/3,
// …, the number of heads before the first tail is even with that probability.
func (g *Gaussian) decays(a, b uint64) bool {
	if a == 0 {
		return true
	}
	quotient, rest := bits.Div64(a, 0, b) // γ in units of 2^-64
	for k := uint64(1); ; k++ {
		w, limit := g.source.Uint64(), quotient/k
		if w > limit || w == limit && !g.tie(quotient%k, rest, b, k) {
			return k%2 == 1
		}
	}
}

// decays1 is true with probability 1/e.
func (g *Gaussian) decays1() bool {
	// The first coin, of chance 1, falls for certain.
	for k := uint64(2); ; k++ {
		quotient, rest := bits.Div64(1, 0, k)
		if w := g.source.Uint64(); w > quotient || w == quotient && !g.tie(0, rest, k, 1) {
			return k%2 == 1
		}
	}
}

// tie decides a comparison of a uniform number with a chance whose first 64 bits are equal: true with the probability
// that is left, (q + r/b)/k.
func (g *Gaussian) tie(q, r, b, k uint64) bool {
	word := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
	numerator := new(big.Int).Mul(word(q), word(b))
	numerator.Add(numerator, word(r))
	denominator := new(big.Int).Mul(word(b), word(k))
	for numerator.Sign() > 0 {
		var digit big.Int
		digit.DivMod(numerator.Lsh(numerator, 64), denominator, numerator)
		w := word(g.source.Uint64())
		if c := w.Cmp(&digit); c != 0 {
			return c < 0
		}
	}
	return false
}

// below maps a uniform word to 0…n−1 (Lemire 2019), or refuses one of those that would favour some.
func below(word, n uint64) (uint64, bool) {
	high, low := bits.Mul64(word, n)
	return high, low >= n || low >= -n%n
}
