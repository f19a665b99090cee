package grpo

import (
	"context"
	"fmt"
	"slices"

	"popri/internal/numeric"
	"popri/model/safetensors"
	"popri/model/tensor"
)

// The updates of a round need the samples' log-probabilities under the policy that drew them. Only the adapters of the
// round's beginning give them, so a checkpoint holds them.

// Begin implements [trainer.Stateful]. A single update needs no old policy: it is the one that learns.
func (o *objective) Begin(ctx context.Context) error {
	if o.updates == 1 {
		return nil
	}
	list := passes(o.groups, o.model.Config.Hidden, 2*o.micro) // no activations are kept
	return tensor.Parallel(len(list), func(i int, s *tensor.Scope) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		sc := o.model.Score(s, list[i].rows, o.adapter, false)
		for k, of := range sc.Row {
			x := list[i].samples[of]
			x.old = append(x.old, sc.LogProbs[k])
		}
		return nil
	})
}

// oldTensor is the name of the log-probabilities in a checkpoint.
const oldTensor = "old"

// Tensors implements [trainer.Stateful].
func (o *objective) Tensors() []safetensors.Tensor {
	if o.updates == 1 { // it is made or not
		return nil
	}
	values := slices.Concat(numeric.Map(o.samples(), func(x *sample) []float32 { return x.old })...)
	return []safetensors.Tensor{safetensors.FromFloat32(oldTensor, []int64{int64(len(values))}, values)}
}

// Restore implements [trainer.Stateful].
func (o *objective) Restore(f *safetensors.File) error {
	if o.updates == 1 {
		return nil
	}
	t, ok := f.Tensor(oldTensor)
	if !ok {
		return fmt.Errorf("%s: tensor %s is missing", f.Path(), oldTensor)
	}
	values, err := t.Float32s()
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path(), err)
	}
	for _, x := range o.samples() {
		n := len(x.tokens)
		if len(values) < n {
			return fmt.Errorf("%s: tensor %s is of other samples", f.Path(), oldTensor)
		}
		x.old, values = values[:n:n], values[n:]
	}
	if len(values) > 0 {
		return fmt.Errorf("%s: tensor %s is of other samples", f.Path(), oldTensor)
	}
	return nil
}

// samples lists the samples of all groups.
func (o *objective) samples() []*sample {
	return slices.Concat(numeric.Map(o.groups, func(g group) []*sample { return g.samples })...)
}
