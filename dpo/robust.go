package dpo

// robust (Chowdhury et al. 2024, equation 12) is unbiased where labels are flipped with probability e:
// (−(1−e) ln σ(β·d) + e ln σ(−β·d)) / (1−2e).
type robust struct{ beta, smoothing float64 }

func (l robust) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x := l.beta * (e.chosen() - e.rejected())
	k := 1 / (1 - 2*l.smoothing)
	g := -k * l.beta * ((1-l.smoothing)*logistic(-x) + l.smoothing*logistic(x))
	return k * ((1-l.smoothing)*softplus(-x) - l.smoothing*softplus(x)), g, -g
}
