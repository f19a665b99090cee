package dpo

// sigmoid is DPO's own loss, −ln σ(β·d) (Rafailov et al. 2023, equation 7).
type sigmoid struct{ beta float64 }

func (l sigmoid) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x := l.beta * (e.chosen() - e.rejected())
	g := -l.beta * logistic(-x)
	return softplus(-x), g, -g
}

// sigmoidNorm is the same on log-ratios averaged over the completion's tokens.
type sigmoidNorm struct{ beta float64 }

func (l sigmoidNorm) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	nc, nr := float64(max(1, e.ChosenLen)), float64(max(1, e.RejectedLen))
	x := l.beta * (e.chosen()/nc - e.rejected()/nr)
	g := -l.beta * logistic(-x)
	return softplus(-x), g / nc, -g / nr
}
