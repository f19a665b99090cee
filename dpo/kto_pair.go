package dpo

// ktoPair is KTO (Ethayarajh et al. 2024, arXiv 2402.01306, equation 7) of pairs: each completion is judged by itself,
// against how far the policy has moved on the other halves of the pairs,
//
//	½ [1 − σ(β(c − z_r))] + ½ [1 − σ(β(z_c − r))], z = max(0, mean of the update's log-ratios)
//
// The z are estimates of the divergence from the reference and count as constants in gradients. KTOTrainer of TRL
// estimates one z on completions of other prompts instead, because it has no pairs; kto_pair of TRL up to 0.8 had these
// estimates.
type ktoPair struct{ beta float64 }

// Eval is the loss of an update on one pair.
func (l ktoPair) Eval(e Example) (loss, gradChosen, gradRejected float64) {
	v := l.EvalAll([]Example{e})[0]
	return v.Loss, v.GradChosen, v.GradRejected
}

// EvalAll implements [BatchLoss].
func (l ktoPair) EvalAll(list []Example) []Value {
	var moved [2]float64
	for _, e := range list {
		moved[0] += e.chosen() / float64(len(list))
		moved[1] += e.rejected() / float64(len(list))
	}
	zc, zr := max(0, moved[0]), max(0, moved[1])
	values := make([]Value, len(list))
	for i, e := range list {
		x, y := l.beta*(e.chosen()-zr), l.beta*(zc-e.rejected())
		values[i] = Value{
			Loss:         (logistic(-x) + logistic(-y)) / 2,
			GradChosen:   -l.beta * logistic(x) * logistic(-x) / 2,
			GradRejected: l.beta * logistic(y) * logistic(-y) / 2,
		}
	}
	return values
}
