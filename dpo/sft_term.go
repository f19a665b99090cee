package dpo

// withSFT adds weight times the [sft] loss (the term of RPO, arXiv 2404.19733, equation 2). It keeps the chosen texts
// likely, where the preference alone could be met by making the rejected texts even less likely.
type withSFT struct {
	Loss
	weight float64
}

func (l withSFT) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	loss, gradChosen, gradRejected = l.Loss.Eval(e)
	nll, g, _ := sft{}.Eval(e)
	return loss + l.weight*nll, gradChosen + l.weight*g, gradRejected
}
