package lm

import (
	"fmt"
	"slices"
	"strconv"

	"popri/internal/quote"
	"popri/safetensors"
)

// State is what an update changes: the parameters and AdamW's moments.
type State struct {
	Params, M, V [][]float32
	Steps        int // AdamW's, for its bias correction
}

// Counters are what a training has done so far.
type Counters struct {
	Steps    int   // updates
	Position int   // in the schedule of learning rates
	Tokens   int64 // read
}

// State returns the optimizer's own memory; where it computes on a GPU, a copy.
func (t *Optimizer) State() State {
	if t.device != nil {
		t.device.load(t.Adam)
	}
	x := State{M: t.Adam.M, V: t.Adam.V, Steps: t.Adam.Step}
	for _, p := range t.Params {
		x.Params = append(x.Params, p.Host())
	}
	return x
}

// Clone copies the state.
func (x State) Clone() State {
	each := func(list [][]float32) (out [][]float32) {
		for _, l := range list {
			out = append(out, slices.Clone(l))
		}
		return out
	}
	return State{each(x.Params), each(x.M), each(x.V), x.Steps}
}

// SetState sets the parameters and AdamW to x.
func (t *Optimizer) SetState(x State) {
	for i, p := range t.Params {
		p.Store(x.Params[i])
		copy(t.Adam.M[i], x.M[i])
		copy(t.Adam.V[i], x.V[i])
	}
	t.Adam.Step = x.Steps
	if t.device != nil {
		t.device.store(t.Adam)
	}
}

// Reset clears AdamW's moments.
func (t *Optimizer) Reset() {
	for i := range t.Adam.M {
		clear(t.Adam.M[i])
		clear(t.Adam.V[i])
	}
	t.Adam.Step = 0
	if t.device != nil {
		t.device.store(t.Adam)
	}
}

// kinds names the parts of a state in a file; without params, the moments alone.
func (x State) kinds(params bool) map[string][][]float32 {
	kinds := map[string][][]float32{"m": x.M, "v": x.V}
	if params {
		kinds["p"] = x.Params
	}
	return kinds
}

// Tensors are the state as stored: the moments and, with params, the parameters. prefix begins their names.
func (x State) Tensors(prefix string, params bool) (list []safetensors.Tensor) {
	kinds := x.kinds(params)
	for _, kind := range []string{"m", "v", "p"} {
		for i, v := range kinds[kind] {
			list = append(list, safetensors.FromFloat32(fmt.Sprintf("%s%s.%05d", prefix, kind, i), []int64{int64(len(v))}, v))
		}
	}
	return list
}

// Read fills the slices of x with what [State.Tensors] gave; the file must have their sizes.
func (x State) Read(f *safetensors.File, prefix string, params bool) error {
	for kind, into := range x.kinds(params) {
		for i := range into {
			name := fmt.Sprintf("%s%s.%05d", prefix, kind, i)
			stored, ok := f.Tensor(name)
			if !ok {
				return fmt.Errorf("%s: tensor %s is missing", f.Path(), name)
			}
			data, err := stored.Float32s()
			if err != nil {
				return fmt.Errorf("%s: %w", f.Path(), err)
			}
			if len(data) != len(into[i]) {
				return fmt.Errorf("%s: tensor %s has %d values, the adapter %d", f.Path(), name, len(data), len(into[i]))
			}
			copy(into[i], data)
		}
	}
	return nil
}

// Metadata is the part of a stored state that is not tensors.
func (t *Optimizer) Metadata(c Counters) map[string]string {
	return map[string]string{"steps": strconv.Itoa(c.Steps), "adam_steps": strconv.Itoa(t.Adam.Step),
		"schedule": strconv.Itoa(c.Position), "num_tokens": strconv.FormatInt(c.Tokens, 10)}
}

// ReadMetadata reads the output of [Optimizer.Metadata]. The number of steps is required; the others, which files of
// earlier versions lack, default to values that follow from it.
func (t *Optimizer) ReadMetadata(f *safetensors.File) (Counters, error) {
	stored := f.Metadata()
	var failed error
	number := func(key string, missing int64) int64 {
		text, ok := stored[key]
		if !ok && key != "steps" {
			return missing
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if (err != nil || n < 0) && failed == nil {
			failed = quote.Errorf("%s: %s is %q, want a number of 0 or more", f.Path(), key, text)
		}
		return n
	}
	steps := number("steps", 0)
	adam := number("adam_steps", steps)
	c := Counters{Steps: int(steps), Position: int(number("schedule", steps)), Tokens: number("num_tokens", 0)}
	if failed == nil {
		t.Adam.Step = int(adam)
	}
	return c, failed
}

// Save writes AdamW's moments and the counters.
func (t *Optimizer) Save(path string, c Counters) error {
	return safetensors.Write(path, t.State().Tensors("", false), t.Metadata(c))
}

// Load reads the output of [Optimizer.Save]. The parameters must be those that were saved with it.
func (t *Optimizer) Load(path string) (Counters, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return Counters{}, err
	}
	defer f.Close()
	x := t.State()
	if err := x.Read(f, "", false); err != nil {
		return Counters{}, err
	}
	t.SetState(x)
	return t.ReadMetadata(f)
}
