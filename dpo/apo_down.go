package dpo

// apoDown (D'Oosterlinck et al. 2024, arXiv 2408.06266, equation 8) makes both completions less likely, the rejected
// one more so, where even the chosen ones are worse than the model's own: σ(β·c) + 1 − σ(β·d).
type apoDown struct{ beta float64 }

func (l apoDown) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	c, x := l.beta*e.chosen(), l.beta*(e.chosen()-e.rejected())
	g := -l.beta * logistic(x) * logistic(-x)
	return logistic(c) + logistic(-x), g + l.beta*logistic(c)*logistic(-c), -g
}
