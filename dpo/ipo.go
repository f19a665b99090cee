package dpo

// ipo (Azar et al. 2023, equation 17) regresses a margin on 1/(2β); as in TRL, the margin is of the log-ratios averaged
// over the completion's tokens: (c/|c| − r/|r| − 1/(2β))².
type ipo struct{ beta float64 }

func (l ipo) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	nc, nr := float64(max(1, e.ChosenLen)), float64(max(1, e.RejectedLen))
	x := e.chosen()/nc - e.rejected()/nr - 1/(2*l.beta)
	return x * x, 2 * x / nc, -2 * x / nr
}
