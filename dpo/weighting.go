package dpo

import (
	"math"
	"slices"

	"popri/model/lm"
	"popri/model/tensor"
)

// agreements are the weights of pairs in WPO (Zhou et al. 2024, arXiv 2406.11827, equation 2, with the alignment of
// section 3.2): how likely the policy would have written a pair's completions itself,
//
//	w = Π_y exp(1/|y| Σ_t [log π(y_t) − ln Σ_v π(v)²])
//
// over both completions y. They count as constants in gradients. squares has ln Σ π(v)² of each token, and row its
// sequence, as for [tokenWeights].
func agreements(logProbs []float32, squares []float64, row []int, pairs []Pair) []float64 {
	weights := make([]float64, len(pairs))
	for i, r := range row {
		n := len(pairs[r/2].Chosen)
		if r%2 == 1 {
			n = len(pairs[r/2].Rejected)
		}
		weights[r/2] += (float64(logProbs[i]) - squares[i]) / float64(n)
	}
	for i, x := range weights {
		weights[i] = math.Exp(x)
	}
	return weights
}

// weights are those of pairs in the loss: 1, unless [Options.Weighting] asks for their agreements.
func (t *Tuner) weights(s *tensor.Scope, sc *lm.Scored, pairs []Pair) []float64 {
	if t.Weighting {
		return agreements(sc.LogProbs, sc.LogSumSquares(s), sc.Row, pairs)
	}
	return slices.Repeat([]float64{1}, len(pairs))
}

// weighted is a pair's value with its weight.
func (v Value) weighted(weight float64) Value {
	return Value{weight * v.Loss, weight * v.GradChosen, weight * v.GradRejected}
}
