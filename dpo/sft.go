package dpo

// withSFT adds weight times the negative log-likelihood of the chosen completion, averaged over its tokens (the term of
// RPO, arXiv 2404.19733, equation 2). It keeps the chosen texts likely where the preference alone would be content to make
// the rejected ones less likely still.
type withSFT struct {
	Loss
	weight float64
}

func (l withSFT) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	loss, gradChosen, gradRejected = l.Loss.Eval(e)
	w := l.weight / float64(e.ChosenLen)
	return loss - w*e.PolicyChosen, gradChosen - w, gradRejected
}

// sft is the negative log-likelihood of the chosen completion, averaged over its tokens: supervised fine-tuning on what
// the clients like best (the PE+SFT baseline of POPri, section 5). The rejected completion does not count.
type sft struct{}

func (sft) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	n := float64(e.ChosenLen)
	return -e.PolicyChosen / n, -1 / n, 0
}
