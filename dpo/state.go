package dpo

import (
	"fmt"

	"popri/optim"
)

// Save writes the optimizer's state: the counters and both moments.
func (t *Tuner) Save(path string) error { return t.opt.Save(path, t.done) }

// Restore reads the output of [Tuner.Save]. The adapter must be the one that was saved with it.
func (t *Tuner) Restore(path string) error {
	done, err := t.opt.Load(path)
	if err != nil {
		return fmt.Errorf("dpo: %w", err)
	}
	t.done = done
	return nil
}

// Free releases what the optimizer holds on a GPU.
func (t *Tuner) Free() { t.opt.Free() }

// ResetOptimizer clears AdamW's moments.
func (t *Tuner) ResetOptimizer() { t.opt.Reset() }

// ResetSchedule begins a new schedule of learning rates with the next step.
func (t *Tuner) ResetSchedule(s optim.Schedule) error {
	if err := s.Check(); err != nil {
		return err
	}
	t.Schedule, t.done.Position = s, 0
	return nil
}
