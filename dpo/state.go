package dpo

import (
	"fmt"
	"slices"
	"strconv"

	"popri/internal/quote"
	"popri/optim"
	"popri/safetensors"
)

// moments are the values that an update changes: the parameters of the adapters and AdamW's state.
type moments struct {
	params, m, v [][]float32
	steps        int // AdamW's, for its bias correction
}

// live returns the tuner's own memory; for adapters on a GPU it returns a copy of the parameters.
func (t *Tuner) live() moments {
	x := moments{m: t.opt.Adam.M, v: t.opt.Adam.V, steps: t.opt.Adam.Step}
	for _, p := range t.opt.Params {
		x.params = append(x.params, p.Host())
	}
	return x
}

func (x moments) clone() moments {
	each := func(list [][]float32) (out [][]float32) {
		for _, l := range list {
			out = append(out, slices.Clone(l))
		}
		return out
	}
	return moments{each(x.params), each(x.m), each(x.v), x.steps}
}

// restore sets the adapters and AdamW to x.
func (t *Tuner) restore(x moments) {
	for i, p := range t.opt.Params {
		p.Store(x.params[i])
		copy(t.opt.Adam.M[i], x.m[i])
		copy(t.opt.Adam.V[i], x.v[i])
	}
	t.opt.Adam.Step = x.steps
}

func (x moments) tensors(prefix string, params bool) (list []safetensors.Tensor) {
	kinds := []struct {
		name   string
		values [][]float32
	}{{"m", x.m}, {"v", x.v}, {"p", x.params}}
	for _, k := range kinds {
		if k.name == "p" && !params {
			continue
		}
		for i, v := range k.values {
			list = append(list, safetensors.FromFloat32(fmt.Sprintf("%s%s.%05d", prefix, k.name, i), []int64{int64(len(v))}, v))
		}
	}
	return list
}

// readTensors fills the slices of x; the file must have their sizes.
func (x moments) readTensors(f *safetensors.File, prefix string, params bool) error {
	for kind, into := range map[string][][]float32{"m": x.m, "v": x.v, "p": x.params} {
		if kind == "p" && !params {
			continue
		}
		for i := range into {
			name := fmt.Sprintf("%s%s.%05d", prefix, kind, i)
			stored, ok := f.Tensor(name)
			if !ok {
				return fmt.Errorf("dpo: %s: tensor %s is missing", f.Path(), name)
			}
			data, err := stored.Float32s()
			if err != nil {
				return fmt.Errorf("dpo: %s: %w", f.Path(), err)
			}
			if len(data) != len(into[i]) {
				return fmt.Errorf("dpo: %s: tensor %s has %d values, the adapter %d", f.Path(), name, len(data), len(into[i]))
			}
			copy(into[i], data)
		}
	}
	return nil
}

// counters are the part of a state that is not tensors.
func (t *Tuner) counters() map[string]string {
	return map[string]string{"steps": strconv.Itoa(t.done), "adam_steps": strconv.Itoa(t.opt.Adam.Step),
		"schedule": strconv.Itoa(t.position), "num_tokens": strconv.FormatInt(t.tokens, 10)}
}

// readCounters reads the counters. The number of steps is required; other counters, which files of earlier versions lack,
// default to values that follow from it.
func (t *Tuner) readCounters(f *safetensors.File) error {
	stored := f.Metadata()
	number := func(key string, missing int64) (int64, error) {
		text, ok := stored[key]
		if !ok && key != "steps" {
			return missing, nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return 0, quote.Errorf("dpo: %s: %s is %q, want a number of 0 or more", f.Path(), key, text)
		}
		return n, nil
	}
	steps, err := number("steps", 0)
	if err != nil {
		return err
	}
	adam, err := number("adam_steps", steps)
	if err != nil {
		return err
	}
	position, err := number("schedule", steps)
	if err != nil {
		return err
	}
	tokens, err := number("num_tokens", 0)
	if err != nil {
		return err
	}
	t.done, t.opt.Adam.Step, t.position, t.tokens = int(steps), int(adam), int(position), tokens
	return nil
}

// Save writes the optimizer's state: the counters and both moments.
func (t *Tuner) Save(path string) error {
	return safetensors.Write(path, t.live().tensors("", false), t.counters())
}

// Restore reads the output of [Tuner.Save]. The adapter must be the one that was saved with it.
func (t *Tuner) Restore(path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("dpo: %w", err)
	}
	defer f.Close()
	if err := t.live().readTensors(f, "", false); err != nil {
		return err
	}
	return t.readCounters(f)
}

// ResetOptimizer clears AdamW's moments.
func (t *Tuner) ResetOptimizer() {
	for i := range t.opt.Adam.M {
		clear(t.opt.Adam.M[i])
		clear(t.opt.Adam.V[i])
	}
	t.opt.Adam.Step = 0
}

// ResetSchedule begins a new schedule of learning rates with the next step.
func (t *Tuner) ResetSchedule(s optim.Schedule) error {
	if err := s.Check(); err != nil {
		return err
	}
	t.Schedule, t.position = s, 0
	return nil
}
