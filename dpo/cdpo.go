package dpo

// conservative (cDPO, Mitchell 2023) assumes that labels are flipped with probability e:
// −(1−e) ln σ(β·d) − e ln σ(−β·d). TRL has it as the sigmoid loss with label_smoothing.
type conservative struct{ beta, smoothing float64 }

func (l conservative) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	loss, g := l.of(e.chosen() - e.rejected())
	return loss, g, -g
}

// of is the loss of a difference d, and its derivative.
func (l conservative) of(d float64) (loss, grad float64) {
	x := l.beta * d
	grad = l.beta * (l.smoothing*logistic(x) - (1-l.smoothing)*logistic(-x))
	return (1-l.smoothing)*softplus(-x) + l.smoothing*softplus(x), grad
}
