package dpo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"popri/internal/quote"
	"popri/lm"
	"popri/safetensors"
)

// Fit trains on a set of pairs for some epochs. It writes checkpoints, evaluates between updates and can keep the best
// adapters. The pairs must have their reference log-probabilities.
type Fit struct {
	Tuner  *Tuner
	Pairs  []Pair
	Held   []Pair // measured on, never trained on; none measures nothing
	Epochs int
	Order  func(epoch int) []int // permutation of the pairs in an epoch, from 0

	// EvalSteps is after how many updates a measurement is made; 0 measures after each epoch. The end is always measured.
	EvalSteps int
	// Judge, if not nil, measures the adapters; less is better. nil takes the loss on Held.
	Judge func(ctx context.Context) (float64, error)
	// KeepBest ends with the adapters, and AdamW's moments, of the best measurement instead of the last ones.
	KeepBest bool
	// Patience is the number of measurements in a row without an improvement after which the training ends; 0 means never.
	Patience int
	// SkipNonFinite leaves out, and counts, pairs whose loss or gradient is not finite, instead of returning a [*NonFinite].
	SkipNonFinite bool

	// Checkpoint is a file that holds the state after each update; "" keeps none. An interrupted training resumes from it
	// and ends with the same bits. Key is stored in it and must be the same on resume.
	Checkpoint, Key string

	OnStep func(m Metrics, done, total int)
	OnEval func(e Evaluation)
}

// Outcome is what a training did. A checkpoint holds it beside the tensors.
type Outcome struct {
	Updates   int          `json:"updates"` // batches gone through
	Steps     []Metrics    `json:"steps"`   // of each batch that had a pair to train on
	Evals     []Evaluation `json:"evals"`
	Best      int          `json:"best"`       // index in Evals of the best, -1 while there is none
	Value     float64      `json:"value"`      // of the best, by what the training is judged
	Stopped   bool         `json:"stopped"`    // by Patience
	NonFinite []int        `json:"non_finite"` // indices in Pairs of those that were left out, as often as they were
}

// ErrForeignCheckpoint marks a checkpoint of another training.
var ErrForeignCheckpoint = errors.New("the checkpoint is of another training")

// Total returns the number of updates that are planned.
func (f *Fit) Total() int { return f.Epochs * f.perEpoch() }

func (f *Fit) perEpoch() int { return (len(f.Pairs) + f.Tuner.BatchPairs - 1) / f.Tuner.BatchPairs }

// Run trains, or resumes from the checkpoint. After an error, the adapters are those of the last complete update.
func (f *Fit) Run(ctx context.Context) (*Outcome, error) {
	if len(f.Pairs) == 0 || f.Epochs < 1 {
		return nil, fmt.Errorf("dpo: %d pairs for %d epochs: nothing to train on", len(f.Pairs), f.Epochs)
	}
	o := &Outcome{Best: -1}
	var best lm.State
	if err := f.resume(o, &best); err != nil {
		return nil, err
	}
	total, perEpoch := f.Total(), f.perEpoch()
	var order []int
	for o.Updates < total && !o.Stopped {
		if err := ctx.Err(); err != nil {
			return o, err
		}
		epoch, at := o.Updates/perEpoch, o.Updates%perEpoch*f.Tuner.BatchPairs
		if order == nil || at == 0 {
			order = f.Order(epoch)
		}
		m, ok, err := f.update(order[at:min(at+f.Tuner.BatchPairs, len(order))], o)
		if err != nil {
			return o, err
		}
		o.Updates++
		if ok {
			m.Epoch = float64(o.Updates) / float64(perEpoch)
			o.Steps = append(o.Steps, m)
		}
		if at+f.Tuner.BatchPairs >= len(order) && len(o.Steps) == 0 {
			return o, fmt.Errorf("dpo: no pair has a finite loss and gradient")
		}
		measured, err := f.measure(ctx, o, &best, total, perEpoch)
		if err != nil {
			return o, err
		}
		if err := f.save(o, best); err != nil {
			return o, err
		}
		if ok && f.OnStep != nil {
			f.OnStep(m, o.Updates, total)
		}
		if measured && f.OnEval != nil {
			f.OnEval(o.Evals[len(o.Evals)-1])
		}
	}
	if f.KeepBest && o.Best >= 0 && o.Best != len(o.Evals)-1 {
		f.Tuner.opt.SetState(best)
	}
	return o, nil
}

// update trains on one batch. It removes pairs that are to be skipped until the others are finite; ok says that any were left.
func (f *Fit) update(places []int, o *Outcome) (m Metrics, ok bool, err error) {
	skipped := 0
	for len(places) > 0 {
		batch := make([]Pair, len(places))
		for i, p := range places {
			batch[i] = f.Pairs[p]
		}
		m, err = f.Tuner.Step(batch)
		if err == nil {
			m.NonFinite = skipped
			return m, true, nil
		}
		refused, isRefused := errors.AsType[*NonFinite](err)
		if !isRefused {
			return m, false, err
		}
		if !f.SkipNonFinite {
			first := f.Pairs[places[refused.Pairs[0]]]
			return m, false, fmt.Errorf("%w; pair %d of the step is number %d of all, prompt %d, samples %d and "+
				"%d; the adapters stay as they were", err,
				refused.Pairs[0], places[refused.Pairs[0]], first.PromptIndex, first.ChosenIndex, first.RejectedIndex)
		}
		for _, p := range refused.Pairs {
			o.NonFinite = append(o.NonFinite, places[p])
			skipped++
		}
		places = without(places, refused.Pairs)
	}
	return m, false, nil
}

// measure evaluates when an evaluation is due, keeps the best adapters and decides whether the training ends.
func (f *Fit) measure(ctx context.Context, o *Outcome, best *lm.State, total, perEpoch int) (bool, error) {
	every := f.EvalSteps
	if every == 0 {
		every = perEpoch
	}
	if len(f.Held) == 0 && f.Judge == nil || o.Updates%every != 0 && o.Updates != total {
		return false, nil
	}
	var e Evaluation
	var err error
	if len(f.Held) > 0 {
		if e, err = f.Tuner.Evaluate(ctx, f.Held, f.SkipNonFinite); err != nil {
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
		return false, fmt.Errorf("dpo: the measurement after update %d is no number", o.Updates)
	}
	e.Step, e.Epoch = o.Updates, float64(o.Updates)/float64(perEpoch)
	e.Best = o.Best < 0 || value < o.Value
	o.Evals = append(o.Evals, e)
	if e.Best {
		o.Best, o.Value = len(o.Evals)-1, value
		if f.KeepBest {
			*best = f.Tuner.opt.State().Clone()
		}
	}
	o.Stopped = f.Patience > 0 && len(o.Evals)-1-o.Best >= f.Patience
	return true, nil
}

func (f *Fit) save(o *Outcome, best lm.State) error {
	if f.Checkpoint == "" {
		return nil
	}
	progress, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("dpo: %w", err)
	}
	meta := f.Tuner.opt.Metadata(f.Tuner.done)
	meta["progress"], meta["key"] = string(progress), f.Key
	list := f.Tuner.opt.State().Tensors("", true)
	if best.Params != nil {
		list = append(list, best.Tensors("best.", true)...)
		meta["best_adam_steps"] = fmt.Sprint(best.Steps)
	}
	return safetensors.Write(f.Checkpoint, list, meta)
}

// resume reads the checkpoint, if there is one.
func (f *Fit) resume(o *Outcome, best *lm.State) error {
	if f.Checkpoint == "" {
		return nil
	}
	if _, err := os.Stat(f.Checkpoint); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, err := safetensors.Open(f.Checkpoint)
	if err != nil {
		return fmt.Errorf("dpo: %w", err)
	}
	defer file.Close()
	meta := file.Metadata()
	if meta["key"] != f.Key {
		return fmt.Errorf("dpo: %s: %w", f.Checkpoint, ErrForeignCheckpoint)
	}
	if err := json.Unmarshal([]byte(meta["progress"]), o); err != nil {
		return fmt.Errorf("dpo: %s: progress: %w", f.Checkpoint, err)
	}
	if o.Updates < 1 || o.Updates > f.Total() || o.Best >= len(o.Evals) {
		return fmt.Errorf("dpo: %s: %d of %d updates, the best of %d measurements is %d", f.Checkpoint, o.Updates,
			f.Total(), len(o.Evals), o.Best)
	}
	now := f.Tuner.opt.State()
	if err := now.Read(file, "", true); err != nil {
		return fmt.Errorf("dpo: %w", err)
	}
	f.Tuner.opt.SetState(now)
	if text, ok := meta["best_adam_steps"]; ok {
		*best = f.Tuner.opt.State().Clone()
		if _, err := fmt.Sscan(text, &best.Steps); err != nil {
			return quote.Errorf("dpo: %s: best_adam_steps is %q", f.Checkpoint, text)
		}
		if err := best.Read(file, "best.", true); err != nil {
			return fmt.Errorf("dpo: %w", err)
		}
	}
	if f.Tuner.done, err = f.Tuner.opt.ReadMetadata(file); err != nil {
		return fmt.Errorf("dpo: %w", err)
	}
	return nil
}
