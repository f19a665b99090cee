package dpo

// cpo is the sigmoid loss without a reference, −ln σ(β·(log π(chosen) − log π(rejected))) (Xu et al. 2024, arXiv
// 2401.08417, equation 3). The paper adds the chosen completions' likelihood, see [withSFT].
type cpo struct{ beta float64 }

func (l cpo) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x := l.beta * (e.PolicyChosen - e.PolicyRejected)
	g := -l.beta * logistic(-x)
	return softplus(-x), g, -g
}
