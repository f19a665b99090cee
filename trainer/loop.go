package trainer

import (
	"context"
	"fmt"
)

// Loop trains on an objective's examples, update by update: it measures between updates, can keep the best parameters,
// and continues where an interrupted training was, with the same bits.
type Loop struct {
	Optimizer *Optimizer
	Objective Objective
	Batches   Batches
	Schedule  Schedule // learning rates, by the optimizer's position in it
	Updates   int      // in all

	// Measure judges the parameters. best says that no earlier measurement was as good. nil measures nothing.
	Measure func(ctx context.Context, done int) (best bool, err error)
	// MeasureEvery is the number of updates between two measurements. The end is always measured.
	MeasureEvery int
	MeasureFirst bool // measure the beginning, too
	// Keep says what of the best measurement the training ends with.
	Keep Keep

	Checkpoint Checkpoint
	// Record becomes the checkpoint's JSON; nil keeps the loop's own progress only.
	Record Record

	Ended     func() bool          // asked before each update: whether training ends before its last one; may be nil
	OnUpdate  func(done int) error // after each update that was made
	OnMeasure func()               // after each measurement
}

// Keep says what a training leaves in the parameters.
type Keep int

const (
	Last        Keep = iota // the parameters of the last update
	BestWeights             // of the best measurement
	BestState               // and AdamW's moments with them, for a training that continues from there
)

// Progress is what a training did so far.
type Progress struct {
	Updates  int `json:"updates"`  // made
	Measured int `json:"measured"` // measurements
	Best     int `json:"best"`     // the best measurement, counted from 0; -1 while there is none
}

// Record is what is known of a training besides its tensors: a *[Progress], or a pointer to a struct that embeds one.
type Record interface{ progress() *Progress }

func (p *Progress) progress() *Progress { return p }

// Begun is the progress of a training that has not begun.
func Begun() Progress { return Progress{Best: -1} }

// Run trains, or continues from the checkpoint. After an error, the parameters are the last complete update's.
func (l *Loop) Run(ctx context.Context) error {
	if l.Record == nil {
		p := Begun()
		l.Record = &p
	}
	p := l.Record.progress()
	best, err := l.begin(ctx)
	if err != nil {
		return err
	}
	if l.MeasureFirst && p.Measured == 0 {
		if best, err = l.measure(ctx, best); err != nil {
			return err
		}
	}
	for p.Updates < l.Updates && (l.Ended == nil || !l.Ended()) {
		if err := ctx.Err(); err != nil {
			return l.interrupted(err, best)
		}
		made, err := l.update(ctx)
		if err != nil {
			return l.interrupted(err, best)
		}
		l.Checkpoint.lacks = true
		due := l.Measure != nil && (p.Updates%l.MeasureEvery == 0 || p.Updates == l.Updates)
		if due {
			if best, err = l.measure(ctx, best); err != nil {
				return err
			}
		}
		if err := l.save(best); err != nil {
			return err
		}
		if made && l.OnUpdate != nil {
			if err := l.OnUpdate(p.Updates); err != nil {
				return err
			}
		}
		if due && l.OnMeasure != nil {
			l.OnMeasure()
		}
	}
	if l.Keep != Last && p.Best >= 0 && p.Best != p.Measured-1 {
		l.Optimizer.SetState(best)
	}
	return nil
}

// update trains on the next batch; made says that there was something to learn from.
func (l *Loop) update(ctx context.Context) (made bool, err error) {
	p := l.Record.progress()
	indices := l.Batches.Indices(p.Updates)
	u := Update{Number: p.Updates + 1, LearningRate: l.Schedule.At(l.Optimizer.Done.Position)}
	if each := l.Batches.PerEpoch(); each > 0 {
		u.Epoch = float64(u.Number) / each
	}
	b, err := l.Objective.Batch(ctx, indices)
	if err == nil && len(b.Passes) > 0 {
		_, err = l.Optimizer.update(b, u)
	}
	if err != nil {
		return false, &UpdateError{Number: u.Number, Indices: indices, Err: err}
	}
	p.Updates++
	return len(b.Passes) > 0, nil
}

// UpdateError is the error of an update, which changed nothing.
type UpdateError struct {
	Number  int   // of the update in its training, from 1
	Indices []int // of its examples, among all
	Err     error
}

func (e *UpdateError) Error() string { return fmt.Sprintf("update %d: %v", e.Number, e.Err) }

// Unwrap returns what went wrong.
func (e *UpdateError) Unwrap() error { return e.Err }

// measure judges the parameters and keeps the best ones.
func (l *Loop) measure(ctx context.Context, best State) (State, error) {
	p := l.Record.progress()
	better, err := l.Measure(ctx, p.Updates)
	if err != nil {
		return best, err
	}
	if p.Measured++; better || p.Best < 0 {
		p.Best = p.Measured - 1
		switch l.Keep {
		case BestState:
			best.become(l.Optimizer.State())
		case BestWeights:
			best.become(State{Params: l.Optimizer.State().Params})
		}
	}
	return best, nil
}

// check returns an error if a checkpoint's progress is none of this training.
func (p *Progress) check(total int) error {
	if p.Updates < 0 || p.Updates > total || p.Best < -1 || p.Best >= max(p.Measured, 0) {
		return fmt.Errorf("%d of %d updates, the best of %d measurements is %d", p.Updates, total, p.Measured, p.Best)
	}
	return nil
}
