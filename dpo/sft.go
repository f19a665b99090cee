package dpo

// sft is the negative log-likelihood of the chosen completion, averaged over its tokens: supervised fine-tuning on what
// the clients like best (the PE+SFT baseline of POPri, section 5). The rejected completion does not count.
type sft struct{}

func (sft) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	n := float64(max(1, e.ChosenLen))
	return -e.PolicyChosen / n, -1 / n, 0
}
