package dpo

// conservative (cDPO, Mitchell 2023) assumes that a share of the labels is flipped:
// −(1−e) ln σ(β·d) − e ln σ(−β·d).
type conservative struct{ beta, smoothing float64 }

func (l conservative) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x := l.beta * (e.chosen() - e.rejected())
	g := l.beta * (l.smoothing*logistic(x) - (1-l.smoothing)*logistic(-x))
	return (1-l.smoothing)*softplus(-x) + l.smoothing*softplus(x), g, -g
}

// robust (Chowdhury et al. 2024) is unbiased under that share of flips:
// (−(1−e) ln σ(β·d) + e ln σ(−β·d)) / (1−2e).
type robust struct{ beta, smoothing float64 }

func (l robust) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x := l.beta * (e.chosen() - e.rejected())
	k := 1 / (1 - 2*l.smoothing)
	g := -k * l.beta * ((1-l.smoothing)*logistic(-x) + l.smoothing*logistic(x))
	return k * ((1-l.smoothing)*softplus(-x) - l.smoothing*softplus(x)), g, -g
}
