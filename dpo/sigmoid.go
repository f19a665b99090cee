package dpo

// sigmoid is DPO's own loss, −ln σ(β·d) (Rafailov et al. 2023, equation 7).
type sigmoid struct{ beta float64 }

func (l sigmoid) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x := l.beta * (e.chosen() - e.rejected())
	g := -l.beta * logistic(-x)
	return softplus(-x), g, -g
}
