package trainer

import (
	"fmt"
	"slices"
	"strconv"

	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/model/safetensors"
	"popri/model/tensor"
)

// State is what an update changes: the parameters and AdamW's moments. A state without moments is of the parameters
// alone.
type State struct {
	Params, M, V [][]float32
	Steps        int // AdamW's, for its bias correction
}

// Counters are what was done with parameters so far.
type Counters struct {
	Steps    int   // updates
	Position int   // in the schedule of learning rates
	Tokens   int64 // read
}

// State returns the optimizer's own memory; where it computes on a GPU, a copy.
func (o *Optimizer) State() State {
	if o.device != nil {
		o.device.load(o.adam)
	}
	return State{Params: numeric.Map(o.Params, tensor.Tensor.Host), M: o.adam.M, V: o.adam.V, Steps: o.adam.Step}
}

// Clone copies the state.
func (x State) Clone() State {
	each := func(list [][]float32) (out [][]float32) { // nil stays nil: no moments
		for _, l := range list {
			out = append(out, slices.Clone(l))
		}
		return out
	}
	return State{each(x.Params), each(x.M), each(x.V), x.Steps}
}

// become copies another state of the same training, into the memory that it has.
func (x *State) become(y State) {
	if len(x.Params) == 0 {
		*x = y.Clone()
		return
	}
	for _, lists := range [][2][][]float32{{x.Params, y.Params}, {x.M, y.M}, {x.V, y.V}} {
		for i := range lists[1] {
			copy(lists[0][i], lists[1][i])
		}
	}
	x.Steps = y.Steps
}

// SetState sets the parameters, and AdamW if x has moments.
func (o *Optimizer) SetState(x State) {
	for i, p := range o.Params {
		p.Store(x.Params[i])
	}
	if x.M == nil {
		return
	}
	for i := range x.M {
		copy(o.adam.M[i], x.M[i])
		copy(o.adam.V[i], x.V[i])
	}
	o.adam.Step = x.Steps
	if o.device != nil {
		o.device.store(o.adam)
	}
}

// Reset clears AdamW's moments.
func (o *Optimizer) Reset() {
	for i := range o.adam.M {
		clear(o.adam.M[i])
		clear(o.adam.V[i])
	}
	o.adam.Step = 0
	if o.device != nil {
		o.device.store(o.adam)
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

// tensors are the state as stored: the moments and, with params, the parameters. prefix begins their names.
func (x State) tensors(prefix string, params bool) (list []safetensors.Tensor) {
	kinds := x.kinds(params)
	for _, kind := range []string{"m", "v", "p"} {
		for i, v := range kinds[kind] {
			list = append(list, safetensors.FromFloat32(fmt.Sprintf("%s%s.%05d", prefix, kind, i), []int64{int64(len(v))}, v))
		}
	}
	return list
}

// read fills the slices of x with what [State.tensors] gave; the file must have their sizes.
func (x State) read(f *safetensors.File, prefix string, params bool) error {
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
				return fmt.Errorf("%s: tensor %s has %d values, the parameter %d", f.Path(), name, len(data), len(into[i]))
			}
			copy(into[i], data)
		}
	}
	return nil
}

// metadata is the part of a stored state that is not tensors.
func (o *Optimizer) metadata() map[string]string {
	return map[string]string{"steps": strconv.Itoa(o.Done.Steps), "adam_steps": strconv.Itoa(o.adam.Step),
		"schedule": strconv.Itoa(o.Done.Position), "num_tokens": strconv.FormatInt(o.Done.Tokens, 10)}
}

// readMetadata reads the output of [Optimizer.metadata]: the counters, and AdamW's steps into x.
func (o *Optimizer) readMetadata(f *safetensors.File, x *State) error {
	var n [4]int64
	for i, key := range []string{"steps", "adam_steps", "schedule", "num_tokens"} {
		var err error
		if n[i], err = number(f, key); err != nil {
			return err
		}
	}
	x.Steps, o.Done = int(n[1]), Counters{Steps: int(n[0]), Position: int(n[2]), Tokens: n[3]}
	return nil
}

// number reads a count from a file's metadata.
func number(f *safetensors.File, key string) (int64, error) {
	n, err := strconv.ParseInt(f.Metadata()[key], 10, 64)
	if err != nil || n < 0 {
		return 0, quote.Errorf("%s: %s is %q, want a number of 0 or more", f.Path(), key, f.Metadata()[key])
	}
	return n, nil
}

// Save writes AdamW's moments and the counters.
func (o *Optimizer) Save(path string) error {
	return safetensors.Write(path, o.State().tensors("", false), o.metadata())
}

// Load reads the output of [Optimizer.Save]. The parameters must be those that were saved with it.
func (o *Optimizer) Load(path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	x := o.State().Clone()
	if err := x.read(f, "", false); err != nil {
		return err
	}
	if err := o.readMetadata(f, &x); err != nil {
		return err
	}
	o.SetState(x)
	return nil
}
