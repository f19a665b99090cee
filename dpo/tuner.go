package dpo

import (
	"fmt"
	"slices"

	"popri/lm"
	"popri/lora"
	"popri/optim"
)

// Options say what a [Tuner] minimises and how. Schedule, BatchPairs and Optimizer have no default.
type Options struct {
	Loss Loss
	// Beta is the β of the rewards β·(log π − log π_ref) that are reported. The loss has a β of its own.
	Beta     float64
	Schedule optim.Schedule // learning rates by update
	// BatchPairs is the pairs of one update, 1 or more.
	BatchPairs int
	// MicroPairs is the largest number of pairs of one forward pass, 1 or more; above BatchPairs it counts as
	// BatchPairs. Smaller passes need less memory and give the same update up to rounding.
	MicroPairs int
	// MicroTokens bounds the tokens of one forward pass, padding included; pairs are then grouped by length. 0 takes
	// MicroPairs at a time in the given order.
	MicroTokens int
	Optimizer   lm.OptimizerOptions
}

// Tuner trains a model's adapter on pairs. It holds the optimizer over all rounds.
type Tuner struct {
	Options
	Model   *lm.Model
	Adapter *lora.Adapter
	// WeightsHash is [HashWeights] of Model; "" computes it when it is needed.
	WeightsHash string
	opt         *lm.Optimizer
	done        lm.Counters // over all rounds
}

// NewTuner prepares the training of a model's adapter.
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
	return &Tuner{Options: o, Model: m, Adapter: a, opt: lm.NewOptimizer(params, o.Optimizer)}, nil
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
