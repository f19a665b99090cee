package dpo

// apoZero (D'Oosterlinck et al. 2024, arXiv 2408.06266, equation 7) makes the chosen completion more and the rejected
// one less likely, where the chosen ones are better than the model's own: 1 − σ(β·c) + σ(β·r).
type apoZero struct{ beta float64 }

func (l apoZero) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	c, r := l.beta*e.chosen(), l.beta*e.rejected()
	return logistic(-c) + logistic(r), -l.beta * logistic(c) * logistic(-c), l.beta * logistic(r) * logistic(-r)
}
