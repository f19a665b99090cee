package grpo

import (
	"context"
	"fmt"
	"math"

	"popri/lm"
	"popri/lora"
	"popri/tensor"
)

// Metrics of one update, under TRL's names.
type Metrics struct {
	Step         int     `json:"step"`                     // from 1, over all rounds
	Loss         float64 `json:"loss"`                     // with the anchor
	BestOfN      float64 `json:"best_of_n_loss,omitempty"` // nats a token, before its weight
	Reward       float64 `json:"reward"`                   // mean score of the update's prompts
	RewardStd    float64 `json:"reward_std"`               // mean of their standard deviations
	FracZeroStd  float64 `json:"frac_reward_zero_std"`     // share of prompts whose samples have one score
	KL           float64 `json:"kl"`                       // from the model without adapters; 0 if grpo.beta is 0
	ClipLow      float64 `json:"clip_ratio/low_mean"`      // share of tokens
	ClipHigh     float64 `json:"clip_ratio/high_mean"`
	Clip         float64 `json:"clip_ratio/region_mean"`
	MeanLength   float64 `json:"completions/mean_length"` // tokens
	Entropy      float64 `json:"entropy"`                 // of the next token, nats
	GradNorm     float64 `json:"grad_norm"`               // before clipping
	LearningRate float64 `json:"learning_rate"`
	NumTokens    int64   `json:"num_tokens"` // read so far: each sample with its prompt, as TRL counts them
	Epoch        float64 `json:"epoch"`      // share of the round's prompts that were used up to the update
}

// options say what an update minimises.
type options struct {
	loss     Loss
	lossType string
	bestOfN  float64
	longest  int // tokens of the longest possible sample
	micro    int // samples of a forward pass
}

// learner trains adapters on groups.
type learner struct {
	options
	model   *lm.Model
	adapter *lora.Adapter
	opt     *lm.Optimizer
	done    lm.Counters // over all rounds
}

// update does one update on groups, at learning rate lr. share is as in [Batch]. ok is false if the groups have no sample
// to train on; then nothing changes.
func (l *learner) update(groups []group, share, lr float64) (m Metrics, ok bool, err error) {
	m = Metrics{Step: l.done.Steps + 1, LearningRate: lr, NumTokens: l.done.Tokens}
	batch := Batch{Share: share, Longest: l.longest}
	anchors := 0 // tokens
	for _, g := range groups {
		n := float64(len(groups))
		m.Reward += g.reward / n
		m.RewardStd += g.deviation / n
		if g.deviation < 1e-8 {
			m.FracZeroStd += 1 / n
		}
		batch.Samples += len(g.samples)
		for _, s := range g.samples {
			batch.Tokens += len(s.tokens)
			m.NumTokens += int64(len(g.prompt) + len(s.tokens))
			if s.best {
				anchors += len(s.tokens)
			}
		}
	}
	if batch.Samples == 0 {
		return m, false, nil
	}
	m.MeanLength = float64(batch.Tokens) / float64(batch.Samples)
	list := passes(groups, l.model.Config.Hidden, l.micro)
	parts := make([]Metrics, len(list))
	m.GradNorm, err = l.opt.StepPasses(len(list), lr, func(i int, s *tensor.Scope) (grads []tensor.Tensor, err error) {
		s.WithGrad(func() { grads, err = l.pass(s, list[i], batch, anchors, &parts[i]) })
		return grads, err
	})
	if err != nil {
		return m, false, fmt.Errorf("update %d: %w; the adapters stay as they were", m.Step, err)
	}
	for _, p := range parts {
		m.Loss += p.Loss
		m.BestOfN += p.BestOfN
		m.KL += p.KL
		m.ClipLow += p.ClipLow
		m.ClipHigh += p.ClipHigh
		m.Clip += p.Clip
		m.Entropy += p.Entropy
	}
	l.done = lm.Counters{Steps: m.Step, Position: l.done.Position + 1, Tokens: m.NumTokens}
	return m, true, nil
}

// pass computes the gradients of one forward pass, and its share of the update's metrics.
func (l *learner) pass(s *tensor.Scope, p pass, batch Batch, anchors int, m *Metrics) ([]tensor.Tensor, error) {
	sc := l.model.Score(s, p.rows, l.adapter, false)
	weights := make([]float32, len(sc.LogProbs))
	share := 1 / float64(batch.Tokens)
	var refused error
	eachToken(sc, func(i, of, at int) {
		x := p.samples[of]
		token := Token{LogProb: float64(sc.LogProbs[i]), Old: float64(sc.LogProbs[i]), Advantage: x.advantage}
		if x.old != nil {
			token.Old = float64(x.old[at])
		}
		if x.reference != nil {
			token.Reference = float64(x.reference[at])
		}
		v := l.loss.Eval(token)
		weight := batch.Weight(l.lossType, len(x.tokens))
		loss, gradient := weight*v.Loss, weight*v.Gradient
		if x.best && l.bestOfN > 0 {
			m.BestOfN -= token.LogProb / float64(anchors)
			loss -= l.bestOfN * token.LogProb / float64(anchors)
			gradient -= l.bestOfN / float64(anchors)
		}
		if refused == nil && (!finite(loss) || !finite(gradient)) {
			refused = fmt.Errorf("token %d of sample %d of prompt %d has the loss %g (log-probability %g, before the round %g, "+
				"advantage %g)", at, x.index, x.prompt, loss, token.LogProb, token.Old, token.Advantage)
		}
		weights[i] = float32(gradient)
		m.Loss += loss
		m.KL += share * v.KL
		m.Entropy += share * float64(sc.Entropy[i])
		if v.Low {
			m.ClipLow += share
			m.Clip += share
		}
		if v.High {
			m.ClipHigh += share
			m.Clip += share
		}
	})
	if refused != nil {
		return nil, refused
	}
	return l.opt.Gradients(s, sc, weights), nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// eachToken calls f for every scored token: its place in sc, the sample that it belongs to, and its place in the sample.
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

// logProbs computes the log-probability of each sample's tokens, without adapters if adapter is nil, and gives them to set.
func (l *learner) logProbs(ctx context.Context, groups []group, adapter lm.Adapter, set func(x *sample, values []float32)) error {
	list := passes(groups, l.model.Config.Hidden, 2*l.micro) // no activations are kept
	return tensor.Parallel(len(list), func(i int, s *tensor.Scope) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		values := make([][]float32, len(list[i].samples))
		sc := l.model.Score(s, list[i].rows, adapter, false)
		eachToken(sc, func(k, of, _ int) { values[of] = append(values[of], sc.LogProbs[k]) })
		for of, x := range list[i].samples {
			set(x, values[of])
		}
		return nil
	})
}
