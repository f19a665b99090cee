package dpo

// sigmoidNorm is the sigmoid loss on log-ratios averaged over the completion's tokens: −ln σ(β·(c/|c| − r/|r|)). Long
// completions then have no more weight than short ones.
type sigmoidNorm struct{ beta float64 }

func (l sigmoidNorm) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	nc, nr := float64(max(1, e.ChosenLen)), float64(max(1, e.RejectedLen))
	x := l.beta * (e.chosen()/nc - e.rejected()/nr)
	g := -l.beta * logistic(-x)
	return softplus(-x), g / nc, -g / nr
}
