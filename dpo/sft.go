package dpo

// sft is the negative log-likelihood of the chosen completions per token: supervised fine-tuning on the texts that the
// clients prefer (the PE+SFT baseline of POPri, section 5). Every token of an update has the same weight, as in TRL
// where an update is one batch, so the mean of the pairs' losses is the loss of the update. The rejected completion
// does not count.
type sft struct{}

func (sft) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	return -e.PolicyChosen / e.MeanChosenLen, -1 / e.MeanChosenLen, 0
}
