package dpo

// rebel (Gao et al. 2024, arXiv 2404.16767, algorithm 1, with β = 1/η and the reference as the earlier policy) regresses the
// difference of the log-ratios on the difference of the scores: (βd − m)². m is [Example].Margin, which has a mean of 1,
// because the scale of cosines says nothing.
type rebel struct{ beta float64 }

func (l rebel) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x := l.beta*(e.chosen()-e.rejected()) - e.Margin
	return x * x, 2 * l.beta * x, -2 * l.beta * x
}
