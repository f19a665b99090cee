package dpo

// ipo (Azar et al. 2023, equation 17) regresses the margin on 1/(2β), either the sums' or, as TRL does, the averages'
// over the completion's tokens.
type ipo struct {
	beta     float64
	averaged bool
}

func (l ipo) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	nc, nr := 1.0, 1.0
	if l.averaged {
		nc, nr = float64(max(1, e.ChosenLen)), float64(max(1, e.RejectedLen))
	}
	x := e.chosen()/nc - e.rejected()/nr - 1/(2*l.beta)
	return x * x, 2 * x / nc, -2 * x / nr
}
