package dpo

// hinge is max(0, 1 − β·d) (SLiC, Zhao et al. 2023); its derivative at the kink is 0.
type hinge struct{ beta float64 }

func (l hinge) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	x := 1 - l.beta*(e.chosen()-e.rejected())
	if x <= 0 {
		return 0, 0, 0
	}
	return x, -l.beta, l.beta
}
