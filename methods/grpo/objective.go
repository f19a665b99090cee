package grpo

import (
	"context"
	"fmt"
	"math"

	"popri/internal/numeric"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/trainer"
)

// objective is the group-relative policy loss of an update's samples:
//
//	L = 1/n Σ_samples Σ_t ℓ(log π(x_t), log π_old(x_t), A)
//
// with the loss ℓ of a [Token], its sample's advantage A and n, the number of tokens of all the round's samples times
// the update's fraction of the round's prompts.
type objective struct {
	micro     int // samples of a forward pass
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
func (o *objective) Batch(_ context.Context, indices []int) (trainer.Batch, error) {
	if err := o.model.Freeze(); err != nil {
		return trainer.Batch{}, err
	}
	groups := numeric.Pick(o.groups, indices)
	n := float64(o.tokens) * float64(len(groups)) / float64(len(o.groups))
	return o.batch(groups, n, func(m Metrics) { o.Steps = append(o.Steps, m) }), nil
}

// batch is an update on groups, whose loss is divided by n. It has no pass if the groups have no sample to train on.
func (o *objective) batch(groups []group, n float64, done func(Metrics)) trainer.Batch {
	b := trainer.Batch{Examples: len(groups), What: "prompt"}
	figures, prompts := Metrics{}, float64(len(groups))
	samples, tokens := 0, 0
	for _, g := range groups {
		figures.Reward += g.reward / prompts
		figures.RewardStd += g.deviation / prompts
		if g.deviation < 1e-8 {
			figures.FracZeroStd += 1 / prompts
		}
		samples += len(g.samples)
		for _, s := range g.samples {
			tokens += len(s.tokens)
			b.Tokens += int64(len(g.prompt) + len(s.tokens))
		}
	}
	list := passes(groups, o.model.Config.Hidden, o.micro)
	parts := make([]Metrics, len(list))
	for i, p := range list {
		b.Passes = append(b.Passes, o.pass(p, n, tokens, &parts[i]))
	}
	b.Alone = func(i int) trainer.Pass {
		if len(groups[i].samples) == 0 {
			return func(*tensor.Scope) ([]tensor.Tensor, error) { return nil, nil }
		}
		return o.pass(passes(groups[i:i+1], o.model.Config.Hidden, math.MaxInt)[0], n, tokens, new(Metrics))
	}
	b.Done = func(u trainer.Update) {
		m := figures
		m.Step, m.Epoch, m.LearningRate, m.GradNorm, m.NumTokens = u.Step, u.Epoch, u.LearningRate, u.GradNorm, u.Tokens
		m.MeanLength = float64(tokens) / float64(samples)
		for _, p := range parts {
			m.addPass(p)
		}
		done(m)
	}
	return b
}

// pass computes the gradients of one forward pass of an update with the given tokens, whose loss is divided by n, and
// adds its part of the update's figures to m.
func (o *objective) pass(p pass, n float64, tokens int, m *Metrics) trainer.Pass {
	return func(s *tensor.Scope) (grads []tensor.Tensor, err error) {
		s.WithGrad(func() {
			sc := o.model.Score(s, p.rows, o.adapter, false)
			weights := make([]float32, len(sc.LogProbs))
			eachToken(sc, func(i, of, at int) {
				x := p.samples[of]
				token := x.token(at, float64(sc.LogProbs[i]))
				v := token.Eval()
				loss, gradient := 1/n*v.Loss, 1/n*v.Gradient
				if err == nil && (!numeric.Finite(loss) || !numeric.Finite(gradient)) {
					err = fmt.Errorf("token %d of sample %d of prompt %d has the loss %g (log-probability %g, before the round %g, "+
						"advantage %g)", at, x.index, x.prompt, loss, token.LogProb, token.Old, token.Advantage)
				}
				weights[i] = float32(gradient)
				m.Loss += loss
				m.addToken(v, float64(sc.Entropy[i]), 1/float64(tokens))
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
	return t
}

// eachToken calls f for every scored token: its index in sc, the sample that it belongs to, and its index in the sample.
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
