package dpo

// withSFT adds weight times the [sft] loss (the term of RPO, arXiv 2404.19733, equation 2). It keeps the chosen texts
// likely, where the preference alone could be met by making the rejected texts even less likely.
type withSFT struct {
	Loss
	weight float64
}

// addSFT keeps a [BatchLoss] one.
func addSFT(l Loss, weight float64) Loss {
	if b, ok := l.(BatchLoss); ok {
		return batchWithSFT{withSFT{l, weight}, b}
	}
	return withSFT{l, weight}
}

// batchWithSFT is withSFT of a loss of all pairs together.
type batchWithSFT struct {
	withSFT
	batch BatchLoss
}

func (l batchWithSFT) EvalAll(list []Example) []Value {
	values := l.batch.EvalAll(list)
	for i, e := range list {
		nll, g, _ := sft{}.Eval(e)
		values[i].Loss += l.weight * nll
		values[i].GradChosen += l.weight * g
	}
	return values
}

func (l withSFT) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	loss, gradChosen, gradRejected = l.Loss.Eval(e)
	nll, g, _ := sft{}.Eval(e)
	return loss + l.weight*nll, gradChosen + l.weight*g, gradRejected
}
