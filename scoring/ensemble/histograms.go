package ensemble

import (
	"math"
	"slices"
)

// Histograms are the results of many votes of the same teachers, without noise: what a threshold lets through.
type Histograms struct {
	Teachers int
	// Never are tokens that stand for no answer: votes for them count, and never pass.
	Never []int32
	list  [][]count
}

type count struct{ token, votes int32 }

// Add adds the votes of one histogram: a token for each teacher.
func (h *Histograms) Add(votes []int32) {
	sorted := slices.Sorted(slices.Values(votes))
	var one []count
	for i, token := range sorted {
		if i == 0 || token != sorted[i-1] {
			one = append(one, count{token, 0})
		}
		one[len(one)-1].votes++
	}
	h.list = append(h.list, slices.DeleteFunc(one, func(c count) bool { return slices.Contains(h.Never, c.token) }))
}

// Passed is what a threshold on the counts lets through.
type Passed struct {
	// Coverage is the share of the votes in counts of at least the threshold.
	Coverage float64 `json:"coverage"`
	// Sparsity is the number of different tokens that reach it in any histogram.
	Sparsity int `json:"sparsity"`
	// Tokens is the mean number of tokens of a histogram that reach it.
	Tokens float64 `json:"tokens"`
	// Distance is the total variation distance between the mean of the histograms that are filtered and then divided by
	// their sum, and the teachers' mean distribution over the tokens that may pass; 1 if nothing passes.
	Distance float64 `json:"total_variation"`
}

// At filters by a threshold. mean is the teachers' mean distribution.
func (h *Histograms) At(threshold int, mean []float64) Passed {
	passed := make([]float64, len(mean))
	var p Passed
	total := 0.0
	for _, one := range h.list {
		for _, c := range one {
			if int(c.votes) >= threshold {
				passed[c.token] += float64(c.votes)
				total += float64(c.votes)
				p.Tokens++
			}
		}
	}
	votes := float64(max(1, len(h.list)*h.Teachers))
	p.Coverage, p.Tokens, p.Distance = total/votes, p.Tokens/float64(max(1, len(h.list))), 1
	for _, v := range passed {
		if v > 0 {
			p.Sparsity++
		}
	}
	if total > 0 {
		p.Distance = 0
		for j, m := range mean {
			p.Distance += math.Abs(passed[j]/total-m) / 2
		}
	}
	return p
}

// Most is the share of the histograms in which more than a number of teachers agree.
func (h *Histograms) Most(votes int) float64 {
	n := 0
	for _, one := range h.list {
		if slices.ContainsFunc(one, func(c count) bool { return int(c.votes) > votes }) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(h.list)))
}

// Robust is the mass of the τ-robust average, mean_i min(p^(i)_j, the τ-th largest p_j): what τ teachers that agree can
// transfer at most. p has a distribution a row.
func Robust(p [][]float64, tau int) float64 {
	if len(p) == 0 || tau < 1 || tau > len(p) {
		return 0
	}
	sum, column := 0.0, make([]float64, len(p))
	for j := range p[0] {
		for i := range p {
			column[i] = p[i][j]
		}
		slices.Sort(column)
		cap := column[len(column)-tau]
		for _, x := range column {
			sum += math.Min(x, cap)
		}
	}
	return sum / float64(len(p))
}
