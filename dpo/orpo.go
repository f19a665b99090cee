package dpo

import "math"

// orpo needs no reference: the [sft] loss, plus β times −ln σ of the logarithm of the odds ratio of both completions,
// whose probability is the geometric mean over tokens (Hong et al. 2024, arXiv 2403.07691, equations 6 and 7; β is
// their λ).
type orpo struct{ beta float64 }

func (l orpo) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	nc, nr := float64(max(1, e.ChosenLen)), float64(max(1, e.RejectedLen))
	chosen, oddsGradChosen := logOdds(e.PolicyChosen / nc)
	rejected, oddsGradRejected := logOdds(e.PolicyRejected / nr)
	nll, gradNLL, _ := sft{}.Eval(e)
	x := chosen - rejected
	g := -l.beta * logistic(-x)
	return nll + l.beta*softplus(-x), gradNLL + g*oddsGradChosen/nc, -g * oddsGradRejected / nr
}

// logOdds is ln p − ln(1−p) for x = ln p, with its derivative. A probability of 1, whose odds are infinite, counts as
// 1 − 10⁻⁷, which is what float32 distinguishes from 1.
func logOdds(x float64) (odds, grad float64) {
	const largest = -1e-7
	if x > largest {
		x = largest
	} else {
		grad = -1 / math.Expm1(x)
	}
	return x - math.Log(-math.Expm1(x)), grad
}
