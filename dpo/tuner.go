package dpo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"popri/internal/numeric"
	"popri/lora"
	"popri/model/lm"
	"popri/trainer"
)

// Options say what a [Tuner] minimises and how. Schedule, BatchPairs and AdamW have no default.
type Options struct {
	Loss Loss
	// Beta is the β of the rewards β·(log π − log π_ref) that are reported. The loss has a β of its own.
	Beta     float64
	Schedule trainer.Schedule // learning rates by update
	// BatchPairs is the pairs of one update, 1 or more.
	BatchPairs int
	// MicroPairs is the largest number of pairs of one forward pass, 1 or more; above BatchPairs it counts as
	// BatchPairs. Smaller passes need less memory and give the same update up to rounding.
	MicroPairs int
	AdamW      trainer.AdamW
}

// Tuner trains a model's adapter on pairs. It holds the optimizer over all rounds.
type Tuner struct {
	Options
	Model     *lm.Model
	Adapter   *lora.Adapter
	Optimizer *trainer.Optimizer
	// WeightsHash is [HashWeights] of Model; "" computes it when it is needed.
	WeightsHash string
}

// NewTuner prepares the training of a model's adapter. The caller frees the optimizer.
func NewTuner(m *lm.Model, a *lora.Adapter, o Options) (*Tuner, error) {
	if err := o.Schedule.Check(); err != nil {
		return nil, err
	}
	if o.BatchPairs < 1 || o.MicroPairs < 1 {
		return nil, fmt.Errorf("dpo: batch of %d pairs in parts of %d", o.BatchPairs, o.MicroPairs)
	}
	o.MicroPairs = min(o.MicroPairs, o.BatchPairs)
	params, err := a.Trainable()
	if err != nil {
		return nil, err
	}
	return &Tuner{Options: o, Model: m, Adapter: a, Optimizer: trainer.NewOptimizer(params, o.AdamW)}, nil
}

// Check returns an error that names the first pair that the model cannot take: an empty prompt or completion, a token
// outside the vocabulary, more tokens than its context.
func (t *Tuner) Check(pairs []Pair) error {
	for i, p := range pairs {
		if len(p.Prompt) == 0 || len(p.Chosen) == 0 || len(p.Rejected) == 0 {
			return fmt.Errorf("dpo: pair %d has an empty prompt or completion (%d, %d, %d tokens)", i,
				len(p.Prompt), len(p.Chosen), len(p.Rejected))
		}
		for _, completion := range [][]int32{p.Chosen, p.Rejected} {
			if err := t.Model.CheckTokens(slices.Concat(p.Prompt, completion)); err != nil {
				return fmt.Errorf("dpo: pair %d: %w", i, err)
			}
		}
	}
	return nil
}

// Step does one update on the mean loss of pairs, which must have their reference log-probabilities. A loss or gradient
// that is not finite changes nothing and is a [*trainer.NonFinite], which names the pairs.
func (t *Tuner) Step(ctx context.Context, pairs []Pair) (m Metrics, err error) {
	if err := t.Check(pairs); err != nil {
		return m, err
	}
	b, err := t.batch(ctx, pairs, func(figures Metrics) { m = figures })
	if err != nil {
		return m, err
	}
	u, err := t.Optimizer.Update(b, t.Schedule.At(t.Optimizer.Done.Position))
	if err != nil {
		return m, fmt.Errorf("dpo: step %d: %w", u.Step, err)
	}
	return m, nil
}

// ResetSchedule begins a new schedule of learning rates with the next step.
func (t *Tuner) ResetSchedule(s trainer.Schedule) error {
	if err := s.Check(); err != nil {
		return err
	}
	t.Schedule, t.Optimizer.Done.Position = s, 0
	return nil
}

// Upcoming returns the learning rates of the next n updates.
func (t *Tuner) Upcoming(n int) []float64 {
	return numeric.Tabulate(n, func(i int) float64 { return t.Schedule.At(t.Optimizer.Done.Position + i) })
}

// Advance notes updates that another program did. Their numbers and tokens, counted from its beginning, are added to
// the tuner's, and the schedule follows. It returns the metrics with the tuner's numbers.
func (t *Tuner) Advance(steps []Metrics) []Metrics {
	out, done := slices.Clone(steps), &t.Optimizer.Done
	for i := range out {
		out[i].Step = done.Steps + i + 1
		out[i].NumTokens += done.Tokens
	}
	if n := len(out); n > 0 {
		*done = trainer.Counters{Steps: out[n-1].Step, Position: done.Position + n, Tokens: out[n-1].NumTokens}
	}
	return out
}

// StateKey hashes the adapter as it is.
func (t *Tuner) StateKey() string {
	h := sha256.New()
	for _, p := range t.Optimizer.State().Params {
		hashFloats(h, p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
