package dpo

// bcoPair classifies each completion by itself, with the reward as the logit: −ln σ(β·c) − ln σ(−β·r) (BCO, Jung et al.
// 2024, arXiv 2404.04656, without the shift of the rewards by their mean, as in TRL).
type bcoPair struct{ beta float64 }

func (l bcoPair) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	c, r := l.beta*e.chosen(), l.beta*e.rejected()
	return softplus(-c) + softplus(r), -l.beta * logistic(-c), l.beta * logistic(r)
}
