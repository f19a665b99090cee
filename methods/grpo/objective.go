package grpo

import (
	"fmt"
	"math"

	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/trainer"
)

// options say what an update minimises.
type options struct {
	loss     Loss
	lossType string
	longest  int // tokens of the longest possible sample
	micro    int // samples of a forward pass
}

// objective is the group-relative policy loss of a round's samples:
//
//	L = Σ_samples Σ_t w · ℓ(log π(x_t), log π_old(x_t), log π_ref(x_t), A)
//
// with the token's [Loss] ℓ, its sample's advantage A and the weight w ([Batch.Weight]).
type objective struct {
	options
	model     *lm.Model
	adapter   *lora.Adapter
	optimizer *trainer.Optimizer // over all rounds

	groups  []group
	tokens  int // of all samples
	updates int // in all
	record
}

// record is what a checkpoint holds of the training besides the tensors.
type record struct {
	trainer.Progress
	Steps []Metrics `json:"steps"` // of each update that had a sample
}

// Batch implements [trainer.Objective]: an example is a prompt with its samples.
func (o *objective) Batch(indices []int) (trainer.Batch, error) {
	if err := o.model.Freeze(); err != nil {
		return trainer.Batch{}, err
	}
	groups := trainer.Select(o.groups, indices)
	share := float64(o.tokens) * float64(len(groups)) / float64(len(o.groups))
	return o.batch(groups, share, func(m Metrics) { o.Steps = append(o.Steps, m) }), nil
}

// batch is an update on groups; share is as in [Batch]. It has no pass if the groups have no sample to train on.
func (o *objective) batch(groups []group, share float64, done func(Metrics)) trainer.Batch {
	b := trainer.Batch{Examples: len(groups), What: "prompt"}
	size := Batch{Share: share, Longest: o.longest}
	figures, n := Metrics{}, float64(len(groups))
	for _, g := range groups {
		figures.Reward += g.reward / n
		figures.RewardStd += g.deviation / n
		if g.deviation < 1e-8 {
			figures.FracZeroStd += 1 / n
		}
		size.Samples += len(g.samples)
		for _, s := range g.samples {
			size.Tokens += len(s.tokens)
			b.Tokens += int64(len(g.prompt) + len(s.tokens))
		}
	}
	list := passes(groups, o.model.Config.Hidden, o.micro)
	shares := make([]Metrics, len(list))
	for i, p := range list {
		b.Passes = append(b.Passes, o.pass(p, size, &shares[i]))
	}
	b.Alone = func(i int) trainer.Pass {
		if len(groups[i].samples) == 0 {
			return func(*tensor.Scope) ([]tensor.Tensor, error) { return nil, nil }
		}
		return o.pass(passes(groups[i:i+1], o.model.Config.Hidden, math.MaxInt)[0], size, new(Metrics))
	}
	b.Done = func(u trainer.Update) {
		m := figures
		m.Step, m.Epoch, m.LearningRate, m.GradNorm, m.NumTokens = u.Step, u.Epoch, u.LearningRate, u.GradNorm, u.Tokens
		m.MeanLength = float64(size.Tokens) / float64(size.Samples)
		for _, p := range shares {
			m.addPass(p)
		}
		done(m)
	}
	return b
}

// pass computes the gradients of one forward pass, and adds its share of the update's figures to m.
func (o *objective) pass(p pass, batch Batch, m *Metrics) trainer.Pass {
	return func(s *tensor.Scope) (grads []tensor.Tensor, err error) {
		s.WithGrad(func() {
			sc := o.model.Score(s, p.rows, o.adapter, false)
			weights := make([]float32, len(sc.LogProbs))
			eachToken(sc, func(i, of, at int) {
				x := p.samples[of]
				token := x.token(at, float64(sc.LogProbs[i]))
				v := o.loss.Eval(token)
				weight := batch.Weight(o.lossType, len(x.tokens))
				loss, gradient := weight*v.Loss, weight*v.Gradient
				if err == nil && (!trainer.Finite(loss) || !trainer.Finite(gradient)) {
					err = fmt.Errorf("token %d of sample %d of prompt %d has the loss %g (log-probability %g, before "+
						"the round %g, advantage %g)", at, x.index, x.prompt, loss, token.LogProb, token.Old,
						token.Advantage)
				}
				weights[i] = float32(gradient)
				m.Loss += loss
				m.addToken(v, float64(sc.Entropy[i]), 1/float64(batch.Tokens))
			})
			if err == nil {
				grads = sc.Gradients(s, weights, o.optimizer.Params)
			}
		})
		return grads, err
	}
}

// token is a token as the loss sees it, with its log-probability under the policy that learns.
func (x *sample) token(at int, logProb float64) Token {
	t := Token{LogProb: logProb, Old: logProb, Advantage: x.advantage}
	if x.old != nil {
		t.Old = float64(x.old[at])
	}
	if x.reference != nil {
		t.Reference = float64(x.reference[at])
	}
	return t
}

// eachToken calls f for every scored token: its index in sc, the sample that it belongs to, and its index in the
// sample.
func eachToken(sc *lm.Scored, f func(i, sample, at int)) {
	at := 0
	for i, sample := range sc.Row {
		if i > 0 && sample != sc.Row[i-1] {
			at = 0
		}
		f(i, sample, at)
		at++
	}
}
