package dpo

import (
	"context"
	"fmt"
	"math"
	"slices"

	"popri/lm"
	"popri/lora"
	"popri/optim"
	"popri/tensor"
)

// Metrics of one optimizer step, under TRL's names.
type Metrics struct {
	Step            int     `json:"step"` // from 1
	Loss            float64 `json:"loss"`
	RewardsChosen   float64 `json:"rewards/chosen"`
	RewardsRejected float64 `json:"rewards/rejected"`
	RewardsMargins  float64 `json:"rewards/margins"`
	Accuracy        float64 `json:"rewards/accuracies"` // share of pairs whose chosen reward is the larger one
	LogpsChosen     float64 `json:"logps/chosen"`
	LogpsRejected   float64 `json:"logps/rejected"`
	LogitsChosen    float64 `json:"logits/chosen"` // mean raw logit over completion positions and vocabulary
	LogitsRejected  float64 `json:"logits/rejected"`
	Entropy         float64 `json:"entropy"`   // mean over completion positions of the policy's next-token entropy, nats
	GradNorm        float64 `json:"grad_norm"` // before clipping
	LearningRate    float64 `json:"learning_rate"`
	NumTokens       int64   `json:"num_tokens"` // read so far: each completion with its prompt, as TRL counts them
	Epoch           float64 `json:"epoch"`      // gone through of the round's pairs after the step
	Pairs           int     `json:"pairs"`
	NonFinite       int     `json:"non_finite,omitempty"` // pairs left out, whose loss or gradient was no finite number
}

// Trainer holds the adapters' optimizer over all rounds.
type Trainer struct {
	Model      *lm.Model
	Adapter    *lora.Adapter
	Loss       Loss
	Beta       float64 // for the rewards β·(log π − log π_ref)
	Schedule   optim.Schedule
	BatchPairs int // pairs of one update
	MicroPairs int // pairs of one forward pass, at most
	// MicroTokens bounds the tokens of one forward pass, padding included; pairs are then put together by length. 0 takes
	// MicroPairs at a time in the order given.
	MicroTokens int
	// WeightsHash is [HashWeights] of Model where the caller knows it already.
	WeightsHash string
	opt         *lm.Trainer
	done        int   // updates done, over all rounds
	position    int   // in the schedule
	tokens      int64 // read so far
}

// NewTrainer prepares training of the adapter. adam holds beta1, beta2 and epsilon.
func NewTrainer(m *lm.Model, a *lora.Adapter, loss Loss, beta float64, schedule optim.Schedule, adam [3]float64, weightDecay, maxNorm float64, batch, micro int) (*Trainer, error) {
	if err := schedule.Check(); err != nil {
		return nil, err
	}
	if batch < 1 || micro < 1 {
		return nil, fmt.Errorf("dpo: batch of %d pairs in parts of %d", batch, micro)
	}
	params, err := a.Trainable()
	if err != nil {
		return nil, err
	}
	return &Trainer{Model: m, Adapter: a, Loss: loss, Beta: beta, Schedule: schedule, BatchPairs: batch, MicroPairs: min(micro, batch),
		opt: lm.NewTrainer(params, adam[0], adam[1], adam[2], weightDecay, maxNorm)}, nil
}

// Steps returns the number of updates done.
func (t *Trainer) Steps() int { return t.done }

// rows lays pairs out for scoring, the prompt not counted: the prompt once, behind it chosen and rejected, which do not see
// each other. Sequence 2i is the chosen one of pair i, 2i+1 its rejected one. A pair that is too long for one row of
// context tokens takes two.
func rows(pairs []Pair, context int) []lm.Row {
	out := make([]lm.Row, 0, len(pairs))
	row := func(prompt []int32, completions ...[]int32) lm.Row {
		r := lm.Row{Tokens: slices.Clone(prompt)}
		for range prompt {
			r.Labels = append(r.Labels, lm.Ignore)
		}
		for i, c := range completions {
			if i == 1 {
				r.Shared, r.Second = len(prompt), len(r.Tokens)
			}
			r.Tokens, r.Labels = append(r.Tokens, c...), append(r.Labels, c...)
		}
		return r
	}
	for _, p := range pairs {
		if len(p.Prompt)+len(p.Chosen)+len(p.Rejected) <= context {
			out = append(out, row(p.Prompt, p.Chosen, p.Rejected))
		} else {
			out = append(out, row(p.Prompt, p.Chosen), row(p.Prompt, p.Rejected))
		}
	}
	return out
}

// sums adds the log-probabilities of pairs up: those of pair i's chosen completion at 2i, its rejected one's at 2i+1. Equal
// completions are equally likely; in one row they would differ by rounding, and win or lose by it.
func sums(sc *lm.Scored, pairs []Pair) []float64 {
	out := make([]float64, 2*len(pairs))
	for i, lp := range sc.LogProbs {
		out[sc.Row[i]] += float64(lp)
	}
	for i, p := range pairs {
		if slices.Equal(p.Chosen, p.Rejected) {
			out[2*i+1] = out[2*i]
		}
	}
	return out
}

// Reference fills in the log-probabilities under the model with its adapters off.
func (t *Trainer) Reference(ctx context.Context, pairs []Pair) error {
	return t.reference(ctx, pairs, nil)
}

func (t *Trainer) reference(ctx context.Context, pairs []Pair, adapter lm.Adapter) error {
	return t.logProbs(ctx, pairs, adapter, func(i int, chosen, rejected float64) {
		pairs[i].Reference, pairs[i].HasReference = [2]float64{chosen, rejected}, true
	})
}

// LogProbs calls each, from several goroutines, with the summed log-probabilities of every pair under the current
// adapters, in nats.
func (t *Trainer) LogProbs(ctx context.Context, pairs []Pair, each func(i int, chosen, rejected float64)) error {
	return t.logProbs(ctx, pairs, t.Adapter, each)
}

func (t *Trainer) logProbs(ctx context.Context, pairs []Pair, adapter lm.Adapter, each func(i int, chosen, rejected float64)) error {
	if err := t.Check(pairs); err != nil {
		return err
	}
	g := t.group(pairs, 2) // there are no activations to keep
	return tensor.Parallel(len(g.ends), func(i int, s *tensor.Scope) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, to := g.bounds(i)
		batch := g.pairs[from:to]
		lp := sums(t.Model.Score(s, rows(batch, t.Model.Config.Context), adapter, false), batch)
		for k := range batch {
			each(g.order[from+k], lp[2*k], lp[2*k+1])
		}
		return nil
	})
}

// Check returns an error that names the first pair that the model cannot take: an empty prompt or completion, a token
// outside the vocabulary, more tokens than its context.
func (t *Trainer) Check(pairs []Pair) error {
	for i, p := range pairs {
		if len(p.Prompt) == 0 || len(p.Chosen) == 0 || len(p.Rejected) == 0 {
			return fmt.Errorf("dpo: pair %d has an empty prompt or completion (%d, %d, %d tokens)", i, len(p.Prompt), len(p.Chosen), len(p.Rejected))
		}
		for _, completion := range [][]int32{p.Chosen, p.Rejected} {
			if err := t.Model.CheckTokens(slices.Concat(p.Prompt, completion)); err != nil {
				return fmt.Errorf("dpo: pair %d: %w", i, err)
			}
		}
	}
	return nil
}

// Step does one update on the mean loss of pairs, whose reference log-probabilities must be there. A loss or gradient that
// is not finite changes nothing and is a [*NonFinite], which names the pairs.
func (t *Trainer) Step(pairs []Pair) (Metrics, error) {
	if err := t.Check(pairs); err != nil {
		return Metrics{}, err
	}
	m := Metrics{Step: t.done + 1, LearningRate: t.Schedule.At(t.position), NumTokens: t.tokens + countTokens(pairs), Pairs: len(pairs)}
	g := t.group(pairs, 1)
	parts := make([]part, len(g.ends))
	defer func() {
		for _, p := range parts {
			for _, g := range p.grads {
				g.Free()
			}
		}
	}()
	// The parts are computed side by side and added in their order, so that the bits do not depend on the threads.
	err := tensor.Parallel(len(parts), func(i int, s *tensor.Scope) error {
		from, to := g.bounds(i)
		return t.part(s, &parts[i], g.pairs[from:to], from, pairs)
	})
	if err == nil {
		err = tensor.Run(func(s *tensor.Scope) error {
			for i, p := range parts {
				m.addPart(p.metrics)
				for k := range p.grads {
					if i > 0 {
						s.Add_(parts[0].grads[k], p.grads[k])
					}
				}
			}
			var err error
			m.GradNorm, err = t.opt.Apply(parts[0].grads, m.LearningRate)
			return err
		})
	}
	if bad(m.GradNorm) {
		err = t.blame(pairs, m.GradNorm)
	}
	if err != nil {
		return m, fmt.Errorf("dpo: step %d: %w", m.Step, g.original(err))
	}
	t.done++
	t.position++
	t.tokens = m.NumTokens
	return m, nil
}

// part is what one forward and backward pass gives: its share of the step's metrics and gradients.
type part struct {
	metrics Metrics
	grads   []tensor.Tensor // kept
}

// part computes the pairs that begin at index from, of all in the step. Pairs without a finite loss give a [*NonFinite].
func (t *Trainer) part(s *tensor.Scope, p *part, pairs []Pair, from int, all []Pair) (err error) {
	n, chosenLen := float64(len(all)), meanChosenLen(all)
	s.WithGrad(func() {
		sc := t.Model.Score(s, rows(pairs, t.Model.Config.Context), t.Adapter, false)
		lp := sums(sc, pairs)
		byRow := make([]float64, 2*len(pairs))
		var refused NonFinite
		for i, pair := range pairs {
			if !pair.HasReference {
				err = fmt.Errorf("pair %d has no reference log-probabilities", from+i)
				return
			}
			e := Example{lp[2*i], lp[2*i+1], pair.Reference[0], pair.Reference[1], len(pair.Chosen), len(pair.Rejected), chosenLen}
			loss, gc, gr := t.Loss.Eval(e)
			if bad(loss) || bad(gc) || bad(gr) {
				refused.add(from+i, fmt.Sprintf("the loss is %g (log-probabilities %g and %g, reference %g and %g)", loss, lp[2*i], lp[2*i+1], pair.Reference[0], pair.Reference[1]))
				continue
			}
			byRow[2*i], byRow[2*i+1] = gc/n, gr/n
			p.metrics.add(loss/n, e, t.Beta, n)
		}
		if len(refused.Pairs) > 0 {
			err = &refused
			return
		}
		// Averaged over the tokens of each part and then over the parts, as TRL logs it.
		var sum [2]float64
		var tokens [2]int
		entropy := 0.0
		for _, h := range sc.Entropy {
			entropy += float64(h)
		}
		for i, l := range sc.MeanLogits(s) {
			sum[sc.Row[i]%2] += l
			tokens[sc.Row[i]%2]++
		}
		share := float64(len(pairs)) / n
		p.metrics.Entropy = share * entropy / float64(max(1, len(sc.Entropy)))
		p.metrics.LogitsChosen = share * sum[0] / float64(max(1, tokens[0]))
		p.metrics.LogitsRejected = share * sum[1] / float64(max(1, tokens[1]))
		weights := make([]float32, len(sc.LogProbs))
		for i, r := range sc.Row {
			weights[i] = float32(byRow[r])
		}
		for _, g := range sc.Gradients(s, weights, t.opt.Params) {
			p.grads = append(p.grads, s.Keep(s.Contiguous(g)))
		}
	})
	return err
}

func bad(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// addPart adds up figures that are shares of the step's.
func (m *Metrics) addPart(p Metrics) {
	m.Loss += p.Loss
	m.RewardsChosen += p.RewardsChosen
	m.RewardsRejected += p.RewardsRejected
	m.RewardsMargins += p.RewardsMargins
	m.Accuracy += p.Accuracy
	m.LogpsChosen += p.LogpsChosen
	m.LogpsRejected += p.LogpsRejected
	m.LogitsChosen += p.LogitsChosen
	m.LogitsRejected += p.LogitsRejected
	m.Entropy += p.Entropy
}

func (m *Metrics) add(loss float64, e Example, beta, n float64) {
	c, r := beta*e.chosen(), beta*e.rejected()
	m.Loss += loss
	m.RewardsChosen += c / n
	m.RewardsRejected += r / n
	m.RewardsMargins += (c - r) / n
	if c > r {
		m.Accuracy += 1 / n
	}
	m.LogpsChosen += e.PolicyChosen / n
	m.LogpsRejected += e.PolicyRejected / n
}
