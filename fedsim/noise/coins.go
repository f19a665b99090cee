package noise

import (
	"math/big"
	"math/bits"
)

// coins are true with probabilities e^(−x), x rational, exactly.
type coins struct{ source Source }

// all is true with probability e^(−n).
func (c coins) all(n uint64) bool {
	for range n {
		if !c.decays1() {
			return false
		}
	}
	return true
}

// decays is true with probability e^(−a/b), for a < b (algorithm 1): in a row of coins with probabilities γ, γ/2, γ/3,
// …, the number of heads before the first tail is even with that probability.
func (c coins) decays(a, b uint64) bool {
	if a == 0 {
		return true
	}
	quotient, rest := bits.Div64(a, 0, b) // γ in units of 2^-64
	for k := uint64(1); ; k++ {
		w, limit := c.source.Uint64(), quotient/k
		if w > limit || w == limit && !c.tie(quotient%k, rest, b, k) {
			return k%2 == 1
		}
	}
}

// decays1 is true with probability 1/e.
func (c coins) decays1() bool {
	// The first coin, of probability 1, falls for certain.
	for k := uint64(2); ; k++ {
		quotient, rest := bits.Div64(1, 0, k)
		if w := c.source.Uint64(); w > quotient || w == quotient && !c.tie(0, rest, k, 1) {
			return k%2 == 1
		}
	}
}

// tie decides a comparison of a uniform number with a probability whose first 64 bits are equal: true with the
// probability that is left, (q + r/b)/k.
func (c coins) tie(q, r, b, k uint64) bool {
	word := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
	numerator := new(big.Int).Mul(word(q), word(b))
	numerator.Add(numerator, word(r))
	denominator := new(big.Int).Mul(word(b), word(k))
	for numerator.Sign() > 0 {
		var digit big.Int
		digit.DivMod(numerator.Lsh(numerator, 64), denominator, numerator)
		w := word(c.source.Uint64())
		if order := w.Cmp(&digit); order != 0 {
			return order < 0
		}
	}
	return false
}
