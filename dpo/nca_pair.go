package dpo

// ncaPair (Chen et al. 2024, arXiv 2402.05369, "Noise contrastive alignment", for pairs) raises the chosen reward and
// keeps both near 0: −ln σ(β·c) − ½ ln σ(−β·c) − ½ ln σ(−β·r).
type ncaPair struct{ beta float64 }

func (l ncaPair) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	c, r := l.beta*e.chosen(), l.beta*e.rejected()
	return softplus(-c) + softplus(c)/2 + softplus(r)/2, l.beta * (logistic(c)/2 - logistic(-c)), l.beta * logistic(r) / 2
}
