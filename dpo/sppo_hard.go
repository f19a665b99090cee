package dpo

// sppoHard (Wu et al. 2024, arXiv 2405.00675, equation 4.7 with the probabilities 1 and 0) regresses both log-ratios on
// ±1/(2β): (c − 1/(2β))² + (r + 1/(2β))².
type sppoHard struct{ beta float64 }

func (l sppoHard) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x, y := e.chosen()-1/(2*l.beta), e.rejected()+1/(2*l.beta)
	return x*x + y*y, 2 * x, 2 * y
}
