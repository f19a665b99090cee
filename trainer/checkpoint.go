package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"popri/model/safetensors"
)

// Checkpoint is the file that holds the state of a training between two updates.
type Checkpoint struct {
	Path string // "" keeps none
	Key  string // is stored, and must be the same when the training continues
	// Every is the least time between two writes, for trainings whose updates take less time than a write; it is longer
	// where writes would take more than a twentieth of the time. 0 writes after each update.
	Every time.Duration

	last  time.Time
	took  time.Duration // the last write
	lacks bool          // updates after the last write
}

// Stateful is an objective that computes something before the first update which the updates need, and which the
// parameters of a later update do not give any more.
type Stateful interface {
	// Begin computes it.
	Begin(ctx context.Context) error
	// Tensors is what a checkpoint has to hold; Restore reads it.
	Tensors() []safetensors.Tensor
	Restore(f *safetensors.File) error
}

// ErrForeignCheckpoint marks a checkpoint of another training.
var ErrForeignCheckpoint = errors.New("the checkpoint is of another training")

// Metadata of a checkpoint. A file of another form, which another version of the program wrote, is not used.
const (
	formKey     = "form"
	form        = "training 1"
	keyKey      = "key"
	progressKey = "progress"
	bestStepKey = "best_adam_steps"
	bestPrefix  = "best."
)

// begin reads the checkpoint, if there is one, and returns the best state so far.
func (l *Loop) begin(ctx context.Context) (best State, err error) {
	l.Checkpoint.last = time.Now()
	if found, err := l.resume(&best); found || err != nil {
		return best, err
	}
	if o, ok := l.Objective.(Stateful); ok {
		if err := o.Begin(ctx); err != nil {
			return best, err
		}
		if l.Checkpoint.Path != "" && len(o.Tensors()) > 0 {
			return best, l.write(best)
		}
	}
	return best, nil
}

// resume reports whether it read a checkpoint.
func (l *Loop) resume(best *State) (found bool, err error) {
	if l.Checkpoint.Path == "" {
		return false, nil
	}
	f, err := safetensors.Open(l.Checkpoint.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if f.Metadata()[formKey] != form {
		return false, nil
	}
	if f.Metadata()[keyKey] != l.Checkpoint.Key {
		return false, fmt.Errorf("%s: %w", f.Path(), ErrForeignCheckpoint)
	}
	if err := l.read(f, best); err != nil {
		return false, fmt.Errorf("%w (remove the file to begin this training again)", err)
	}
	return true, nil
}

func (l *Loop) read(f *safetensors.File, best *State) error {
	if err := json.Unmarshal([]byte(f.Metadata()[progressKey]), l.Record); err != nil {
		return fmt.Errorf("%s: progress: %w", f.Path(), err)
	}
	if err := l.Record.progress().check(l.Updates); err != nil {
		return fmt.Errorf("%s: %w", f.Path(), err)
	}
	if o, ok := l.Objective.(Stateful); ok {
		if err := o.Restore(f); err != nil {
			return err
		}
	}
	now := l.Optimizer.State().Clone()
	if err := now.read(f, "", true); err != nil {
		return err
	}
	if l.Keep != Last && l.Record.progress().Best >= 0 {
		*best = now
		if l.Keep == BestWeights {
			*best = State{Params: now.Params}
		}
		*best = best.Clone()
		if err := best.read(f, bestPrefix, true); err != nil {
			return err
		}
		steps, err := number(f, bestStepKey)
		if err != nil {
			return err
		}
		best.Steps = int(steps)
	}
	if err := l.Optimizer.readMetadata(f, &now); err != nil {
		return err
	}
	l.Optimizer.SetState(now)
	return nil
}

// save writes the checkpoint, if one is due.
func (l *Loop) save(best State) error {
	c := &l.Checkpoint
	if pause := max(c.Every, 20*c.took); c.Path == "" || c.Every > 0 && time.Since(c.last) < pause {
		return nil
	}
	begun := time.Now()
	err := l.write(best)
	c.took = time.Since(begun)
	return err
}

// interrupted writes a checkpoint of what a training would lose that ends with err, because it was cancelled.
func (l *Loop) interrupted(err error, best State) error {
	if c := l.Checkpoint; c.Path == "" || !c.lacks || !errors.Is(err, context.Canceled) {
		return err
	}
	return errors.Join(err, l.write(best))
}

func (l *Loop) write(best State) error {
	progress, err := json.Marshal(l.Record)
	if err != nil {
		return err
	}
	meta := l.Optimizer.metadata()
	meta[formKey], meta[keyKey], meta[progressKey] = form, l.Checkpoint.Key, string(progress)
	list := l.Optimizer.State().tensors("", true)
	if best.Params != nil {
		list = append(list, best.tensors(bestPrefix, true)...)
		meta[bestStepKey] = fmt.Sprint(best.Steps)
	}
	if o, ok := l.Objective.(Stateful); ok {
		list = append(list, o.Tensors()...)
	}
	if err := os.MkdirAll(filepath.Dir(l.Checkpoint.Path), 0o755); err != nil {
		return err
	}
	if err := safetensors.Write(l.Checkpoint.Path, list, meta); err != nil {
		return err
	}
	l.Checkpoint.last, l.Checkpoint.lacks = time.Now(), false
	return nil
}

// Remove deletes the checkpoint of a training that is done.
func (c Checkpoint) Remove() error { return os.RemoveAll(c.Path) }
