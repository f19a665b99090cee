package dpo

import (
	"math"

	"popri/configs/losses"
)

// divergences are the regularizers of f-DPO (Wang et al. 2023, arXiv 2309.16240, section 3) under TRL's names. Each is
// f' as a function of a log-ratio x = ln t, with its derivative with respect to x.
var divergences = map[string]func(x float64) (score, grad float64){
	"reverse_kl": func(x float64) (score, grad float64) { return x, 1 }, // f' = ln t, up to a constant: DPO
	"forward_kl": func(x float64) (score, grad float64) { // f' = 1 − 1/t
		inverse := math.Exp(-x)
		return 1 - inverse, inverse
	},
	"js_divergence": func(x float64) (score, grad float64) { // f' = ln(2t/(t+1))
		return math.Ln2 - softplus(-x), logistic(-x)
	},
	"alpha_divergence": func(x float64) (score, grad float64) { // f' = (t^(α−1) − 1)/(α−1) with α = ½
		if x < -160 { // where TRL bounds the power, to e^80
			return -2 * math.Expm1(80), 0
		}
		return -2 * math.Expm1(-x/2), math.Exp(-x / 2)
	},
}

// ofDifference are the losses that take any divergence: functions of the difference of the log-ratios, or of their
// averages.
var ofDifference = losses.Names(func(l losses.Loss) bool { return l.Difference })

// withDivergence is a loss whose log-ratios are replaced by f' of a divergence.
type withDivergence struct {
	Loss
	score func(x float64) (score, grad float64)
}

func (l withDivergence) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	chosen, scoreGradChosen := l.score(e.chosen())
	rejected, scoreGradRejected := l.score(e.rejected())
	e.PolicyChosen, e.RefChosen, e.PolicyRejected, e.RefRejected = chosen, 0, rejected, 0
	loss, gradChosen, gradRejected = l.Loss.Eval(e)
	return loss, gradChosen * scoreGradChosen, gradRejected * scoreGradRejected
}
