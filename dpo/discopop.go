package dpo

import "math"

// discopopTau is the temperature τ of [discopop], the paper's and TRL's default.
const discopopTau = 0.05

// discopop (Lu et al. 2024, arXiv 2406.08414, equation 5) goes over from the logistic to the exponential loss as the
// margin x = β·d grows: −(1−m) ln σ(x) + m e^−x with m = σ(x/τ).
type discopop struct{ beta float64 }

func (l discopop) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x := l.beta * (e.chosen() - e.rejected())
	m, notM := logistic(x/discopopTau), logistic(-x/discopopTau)
	exponential := math.Exp(-x - softplus(-x/discopopTau)) // m e^−x, also where e^−x overflows
	g := l.beta * (exponential*notM/discopopTau - exponential - softplus(-x)*m*notM/discopopTau - logistic(-x)*notM)
	return softplus(-x)*notM + exponential, g, -g
}
