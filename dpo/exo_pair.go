package dpo

import "math"

// exoPair (Ji et al. 2024, arXiv 2402.00856, equation 16) is the divergence of the policy's preference q = σ(β·d) from
// labels that are flipped with probability e: q·ln(q/(1−e)) + (1−q)·ln((1−q)/e). It needs e above 0.
type exoPair struct{ beta, smoothing float64 }

func (l exoPair) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x := l.beta * (e.chosen() - e.rejected())
	q, notQ := logistic(x), logistic(-x)
	likely, unlikely := math.Log1p(-l.smoothing), math.Log(l.smoothing)
	g := l.beta * q * notQ * (x - likely + unlikely)
	return q*(-softplus(-x)-likely) + notQ*(-softplus(x)-unlikely), g, -g
}
