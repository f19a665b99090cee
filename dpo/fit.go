package dpo

import (
	"context"
	"errors"
	"fmt"
	"math"

	"popri/internal/numeric"
	"popri/trainer"
)

// Fit trains on a set of pairs for some epochs. It writes checkpoints, evaluates after each epoch and can keep the best
// adapters. The pairs must have their reference log-probabilities.
type Fit struct {
	Tuner  *Tuner
	Pairs  []Pair
	Held   []Pair // measured on, never trained on; none measures nothing
	Epochs int
	Order  func(epoch int) []int // permutation of the pairs in an epoch, from 0
	// Judge, if not nil, measures the adapters; less is better. nil takes the loss on Held.
	Judge func(ctx context.Context) (float64, error)
	// KeepBest ends with the adapters, and AdamW's moments, of the best measurement instead of the last ones.
	KeepBest bool

	// Checkpoint holds the state after each update. An interrupted training resumes from it and ends with the same
	// bits.
	Checkpoint trainer.Checkpoint

	OnStep func(m Metrics, done, total int)
	OnEval func(e Evaluation)

	outcome *Outcome
}

// Outcome is what a training did. A checkpoint holds it next to the tensors.
type Outcome struct {
	trainer.Progress
	Steps []Metrics    `json:"steps"` // of each update that had a pair to train on
	Evals []Evaluation `json:"evals"` // measurements
	Value float64      `json:"value"` // of the best one, by what the training is judged
}

// Total returns the number of updates that are planned.
func (f *Fit) Total() int { return f.Epochs * f.epochs().Updates() }

func (f *Fit) epochs() *trainer.Epochs {
	return &trainer.Epochs{Examples: len(f.Pairs), Size: f.Tuner.BatchPairs, Order: f.Order}
}

// Run trains, or resumes from the checkpoint. After an error, the adapters have the values of the last complete update.
func (f *Fit) Run(ctx context.Context) (*Outcome, error) {
	if len(f.Pairs) == 0 || f.Epochs < 1 {
		return nil, fmt.Errorf("dpo: %d pairs for %d epochs: nothing to train on", len(f.Pairs), f.Epochs)
	}
	o := &Outcome{Progress: trainer.Begun()}
	f.outcome = o
	epochs := f.epochs()
	loop := trainer.Loop{Optimizer: f.Tuner.Optimizer, Objective: f, Batches: epochs, Schedule: f.Tuner.Schedule,
		Updates: f.Total(), MeasureEvery: epochs.Updates(), Checkpoint: f.Checkpoint, Record: o}
	if len(f.Held) > 0 || f.Judge != nil {
		loop.Measure = f.measure
	}
	if f.KeepBest {
		loop.Keep = trainer.BestState
	}
	if f.OnStep != nil {
		loop.OnUpdate = func(done int) error {
			f.OnStep(o.Steps[len(o.Steps)-1], done, loop.Updates)
			return nil
		}
	}
	if f.OnEval != nil {
		loop.OnMeasure = func() { f.OnEval(o.Evals[len(o.Evals)-1]) }
	}
	if err := loop.Run(ctx); err != nil {
		return o, fmt.Errorf("dpo: %w", f.named(err))
	}
	return o, nil
}

// Batch implements [trainer.Objective].
func (f *Fit) Batch(ctx context.Context, indices []int) (trainer.Batch, error) {
	pairs := numeric.Pick(f.Pairs, indices)
	if err := f.Tuner.Check(pairs); err != nil {
		return trainer.Batch{}, err
	}
	return f.Tuner.batch(ctx, pairs, func(m Metrics) { f.outcome.Steps = append(f.outcome.Steps, m) })
}

// named adds to the error of an update which of all pairs is to blame.
func (f *Fit) named(err error) error {
	failed, ok := errors.AsType[*trainer.UpdateError](err)
	refused := trainer.NonFiniteExamples(err)
	if !ok || refused == nil {
		return err
	}
	index := failed.Indices[refused[0]]
	first := f.Pairs[index]
	return fmt.Errorf("%w; pair %d of the step is number %d of all, prompt %d, samples %d and %d; the adapters stay "+
		"as they were", err, refused[0], index, first.PromptIndex, first.ChosenIndex, first.RejectedIndex)
}

// measure evaluates the adapters.
func (f *Fit) measure(ctx context.Context, done int) (best bool, err error) {
	var e Evaluation
	if len(f.Held) > 0 {
		if e, err = f.Tuner.Evaluate(ctx, f.Held); err != nil {
			return false, err
		}
	}
	value := e.Loss
	if f.Judge != nil {
		if value, err = f.Judge(ctx); err != nil {
			return false, err
		}
		e.FID = &value
	}
	if math.IsNaN(value) {
		return false, fmt.Errorf("the measurement after update %d is no number", done)
	}
	o := f.outcome
	e.Step, e.Epoch = done, float64(done)/f.epochs().PerEpoch()
	e.Best = o.Best < 0 || value < o.Value
	if e.Best {
		o.Value = value
	}
	o.Evals = append(o.Evals, e)
	return e.Best, nil
}
