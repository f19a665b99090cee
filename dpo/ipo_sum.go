package dpo

// ipoSum (Azar et al. 2023, equation 17) regresses the margin of the sums on 1/(2β): (d − 1/(2β))².
type ipoSum struct{ beta float64 }

func (l ipoSum) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x := e.chosen() - e.rejected() - 1/(2*l.beta)
	return x * x, 2 * x, -2 * x
}
