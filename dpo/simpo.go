package dpo

// simpo needs no reference: −ln σ(β·(log π(chosen)/|c| − log π(rejected)/|r|) − γ), with a margin γ (Meng et al. 2024,
// arXiv 2405.14734, equation 6).
type simpo struct{ beta, gamma float64 }

func (l simpo) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	nc, nr := float64(max(1, e.ChosenLen)), float64(max(1, e.RejectedLen))
	x := l.beta*(e.PolicyChosen/nc-e.PolicyRejected/nr) - l.gamma
	g := -l.beta * logistic(-x)
	return softplus(-x), g / nc, -g / nr
}
