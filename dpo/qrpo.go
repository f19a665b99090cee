package dpo

import "math"

// qrpo (Matrenok et al. 2025, arXiv 2507.08068) regresses each log-ratio on the sample's quantile among the prompt's:
// (q_c − z − βc)² + (q_r − z − βr)², with z = β ln(β(e^(1/β) − 1)), the logarithm of the partition function of uniform
// quantiles. The sample of rank k of J has the quantile 1 − (k − ½)/J.
type qrpo struct {
	beta, z float64
	samples int
}

func newQRPO(p Params) Loss {
	z := 1 + p.Beta*math.Log(p.Beta*-math.Expm1(-1/p.Beta)) // e^(1/β) taken out, which overflows
	return qrpo{p.Beta, z, p.Samples}
}

func (l qrpo) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	rank, n := e.RejectedRank, l.samples
	if rank == 0 { // chosen and rejected are all that is known
		rank, n = 2, 2
	}
	quantile := func(k int) float64 { return 1 - (float64(k)-.5)/float64(n) }
	x, y := quantile(1)-l.z-l.beta*e.chosen(), quantile(rank)-l.z-l.beta*e.rejected()
	return x*x + y*y, -2 * l.beta * x, -2 * l.beta * y
}
