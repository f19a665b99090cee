package noise

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"popri/accountant"
	"popri/internal/numeric"
)

// choose draws one of some candidates with probabilities in proportion to e^(score·rate/2³²), exactly and with integers
// alone: a uniform candidate is taken with probability e^(−d·rate/2³²), d being how far it is below the highest score,
// and otherwise another one is drawn. Taking one after another so, without putting back, is the same as sorting by
// scores plus Gumbel noise of scale 2³²/rate, and needs none of its logarithms, whose rounding could reveal the scores.
// Scores differ by less than 2⁵⁰, and rate is at most 2⁴⁰.
func choose(source Source, scores []int64, rate uint64) int {
	c, most := coins{source}, slices.Max(scores)
	for {
		j := int(Below(source, uint64(len(scores))))
		high, low := bits.Mul64(uint64(most-scores[j]), rate)
		if c.all(high<<32|low>>32) && c.decays(low&(1<<32-1), 1<<32) {
			return j
		}
	}
}

// LimitedDomain selects the largest of many counts, of which each client moves one by 1 (Durfee and Rogers 2019,
// algorithm 2). See accountant.Gumbel for what it costs.
type LimitedDomain struct {
	Scale  float64 // of the noise: b, 2/ε0 of the paper
	Domain int     // K: counts that can be selected, the largest ones; fewer where there are not more
	Picks  int     // k: most elements of a selection
	Group  int     // clients that belong to one person; 0 means 1
	Slack  float64 // δ0
}

// validate checks the settings. Scale 0 is no noise.
func (l LimitedDomain) validate(n int) error {
	if !(l.Scale >= 0) || l.Scale > 1<<24 || l.Scale > 0 && l.Scale < 1./256 || l.Domain < 1 || l.Picks < 1 || n < 2 ||
		!(l.Slack > 0 && l.Slack < 1) {
		return fmt.Errorf("noise: a selection of %d among the largest %d of %d counts, with noise of scale %g and "+
			"slack %g", l.Picks, l.Domain, n, l.Scale, l.Slack)
	}
	return nil
}

// rate is the scale's inverse in units of 2⁻³², rounded down: noise of a scale that is no smaller.
func (l LimitedDomain) rate() uint64 { return uint64(math.Floor(math.Ldexp(1/l.Scale, 32))) }

// Select returns the indices of the selected counts, that with the highest noised score first: at most Picks, and only
// those before the noisy threshold, so that there may be none. Scores are whole numbers: the threshold is rounded up,
// which makes its δ0 smaller.
func (l LimitedDomain) Select(source Source, counts []int64) ([]int, error) {
	if err := l.validate(len(counts)); err != nil {
		return nil, err
	}
	order := numeric.SortedIndices(len(counts), func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	domain := min(l.Domain, len(counts)-1)
	next := counts[order[domain]]
	order = order[:domain]
	if l.Scale == 0 {
		return slices.DeleteFunc(order[:min(l.Picks, domain)], func(i int) bool { return counts[i] <= next }), nil
	}
	rate := l.rate()
	gap := accountant.SelectionThreshold(math.Ldexp(1/float64(rate), 32), l.Slack, max(1, l.Group), domain, len(counts))
	scores := []int64{next + int64(math.Ceil(gap*(1+1e-12)))} // of ⊥
	scores = append(scores, numeric.Pick(counts, order)...)
	var out []int
	for len(out) < l.Picks {
		j := choose(source, scores, rate)
		if j == 0 {
			break
		}
		out = append(out, order[j-1])
		scores, order = slices.Delete(scores, j, j+1), slices.Delete(order, j-1, j)
		if len(order) == 0 {
			break
		}
	}
	return out, nil
}
