package ensemble

import (
	"math"
)

// None is the token of a vote without a result, ⊥.
const None = -1

// Rule decides from the noised counts of a vote which token is released, if any.
type Rule struct {
	Teachers int // n
	// Margin is L, which bounds the noise of all counts with a probability near 1; see [Margin].
	Margin float64
	// Heterogeneous says that few teachers need to agree, because each has the data of one or few clients (algorithm
	// 3): a token is drawn in proportion to the counts of at least 2L. Otherwise more than half of the teachers must
	// (algorithm 2): the token with the largest count is released if that is above n/2 + L.
	Heterogeneous bool
}

// miss is the probability with which some noise of a vote may be beyond [Margin].
const miss = 0.05

// Margin is L = σ·√(2 ln(2n/β)): n Gaussian noises of standard deviation σ are within ±L with probability 1 − β, β
// being [miss].
func Margin(sigma float64, n int) float64 { return sigma * math.Sqrt(2*math.Log(2*float64(n)/miss)) }

// Threshold is the noised count that a token needs.
func (r Rule) Threshold() float64 {
	if r.Heterogeneous {
		return 2 * r.Margin
	}
	return float64(r.Teachers)/2 + r.Margin
}

// Choose returns the released token and its noised count, or [None] and 0. u is uniform in [0, 1) and secret; the rule
// of a homogeneous ensemble does not use it. All of it follows from noised counts, so that it costs no privacy.
func (r Rule) Choose(counts []float64, u float64) (token int, count float64) {
	least := r.Threshold()
	if !r.Heterogeneous {
		best := 0
		for j, c := range counts {
			if c > counts[best] {
				best = j
			}
		}
		if len(counts) > 0 && counts[best] > least {
			return best, counts[best]
		}
		return None, 0
	}
	// The probability of a token is c_j/n. What noise adds to the sum of the survivors must not make it more than 1.
	total := 0.0
	for _, c := range counts {
		if c >= least && c > 0 {
			total += c
		}
	}
	left := u * math.Max(total, float64(r.Teachers))
	for j, c := range counts {
		if c >= least && c > 0 {
			if left < c {
				return j, c
			}
			left -= c
		}
	}
	return None, 0
}
