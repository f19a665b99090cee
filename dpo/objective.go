package dpo

import (
	"context"
	"fmt"

	"popri/internal/numeric"
	"popri/model/tensor"
	"popri/trainer"
)

// batch is the objective of preference training on pairs, which must have their reference log-probabilities:
//
//	L = 1/n Σ_i ℓ(log π(c_i), log π(r_i), log π_ref(c_i), log π_ref(r_i))
//
// with a [Loss] ℓ, for DPO −ln σ(β·[(log π − log π_ref)(c_i) − (log π − log π_ref)(r_i)]). done receives the figures of
// the update after it.
func (t *Tuner) batch(ctx context.Context, pairs []Pair, done func(Metrics)) (trainer.Batch, error) {
	if err := t.Model.Freeze(); err != nil {
		return trainer.Batch{}, err
	}
	values, err := t.together(ctx, pairs)
	if err != nil {
		return trainer.Batch{}, err
	}
	passes := t.passes(pairs, 1)
	parts := make([]part, len(passes))
	b := trainer.Batch{Tokens: countTokens(pairs), Examples: len(pairs), What: "pair"}
	for i, indices := range passes {
		b.Passes = append(b.Passes, t.pass(pairs, values, indices, &parts[i]))
	}
	b.Alone = func(i int) trainer.Pass { return t.pass(pairs, values, []int{i}, new(part)) }
	b.Done = func(u trainer.Update) {
		m := Metrics{Step: u.Step, Epoch: u.Epoch, LearningRate: u.LearningRate, GradNorm: u.GradNorm,
			NumTokens: u.Tokens, Pairs: len(pairs)}
		m.whole(parts)
		done(m)
	}
	return b, nil
}

// pass is the forward and backward pass of the pairs at indices, among all of an update. values belong to a
// [BatchLoss], or are none. It adds their part of the update's figures to m.
func (t *Tuner) pass(all []Pair, values []Value, indices []int, m *part) trainer.Pass {
	n, of := float64(len(all)), meansOf(all)
	return func(s *tensor.Scope) (grads []tensor.Tensor, err error) {
		s.WithGrad(func() {
			pairs := numeric.Pick(all, indices)
			sc := t.Model.Score(s, scoredRows(pairs, t.Model.Config.Context), t.Adapter, false)
			lp := sums(sc, pairs)
			byRow := make([]float64, 2*len(pairs))
			refused := trainer.NonFinite{What: "pair"}
			for i, pair := range pairs {
				if !pair.HasReference {
					err = fmt.Errorf("pair %d has no reference log-probabilities", indices[i])
					return
				}
				e := pair.example(lp[i], of)
				var v Value
				if values != nil {
					v = values[indices[i]]
				} else {
					v = value(t.Loss.Eval(e))
				}
				if !numeric.Finite(v.Loss) || !numeric.Finite(v.GradChosen) || !numeric.Finite(v.GradRejected) {
					refused.Add(indices[i], e.describe(v.Loss))
					continue
				}
				byRow[2*i], byRow[2*i+1] = v.GradChosen/n, v.GradRejected/n
				m.add(v.Loss/n, e, t.Beta, n)
			}
			if len(refused.Examples) > 0 {
				err = &refused
				return
			}
			m.addDistribution(sc)
			weights := numeric.Map(sc.Row, func(r int) float32 { return float32(byRow[r]) })
			grads = sc.Gradients(s, weights, t.Optimizer.Params)
		})
		return grads, err
	}
}

// describe says how a loss that is not finite came about.
func (e Example) describe(loss float64) string {
	return fmt.Sprintf("the loss is %g (log-probabilities %g and %g, reference %g and %g)", loss, e.PolicyChosen,
		e.PolicyRejected, e.RefChosen, e.RefRejected)
}
