package grpo

import (
	"context"
	"fmt"

	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
)

// The updates of a round need the samples' log-probabilities under the policy that drew them and under the model
// without adapters. Only the adapters of the round's beginning give the first, so a checkpoint holds them.

// Begin implements [training.Stateful]. A single update needs no old policy: it is the one that learns.
func (o *objective) Begin(ctx context.Context) error {
	if o.updates > 1 {
		if err := o.logProbs(ctx, o.adapter, func(x *sample, v []float32) { x.old = v }); err != nil {
			return err
		}
	}
	if o.loss.Beta > 0 {
		return o.logProbs(ctx, nil, func(x *sample, v []float32) { x.reference = v })
	}
	return nil
}

// stored are the names of log-probabilities in a checkpoint.
var stored = []string{"old", "reference"}

func (x *sample) stored(name string) *[]float32 {
	if name == "old" {
		return &x.old
	}
	return &x.reference
}

// Tensors implements [training.Stateful].
func (o *objective) Tensors() (list []safetensors.Tensor) {
	if o.updates == 1 { // it is made or not
		return nil
	}
	for _, name := range stored {
		var values []float32
		for _, x := range o.samples() {
			values = append(values, *x.stored(name)...)
		}
		if len(values) > 0 {
			list = append(list, safetensors.FromFloat32(name, []int64{int64(len(values))}, values))
		}
	}
	return list
}

// Restore implements [training.Stateful].
func (o *objective) Restore(f *safetensors.File) error {
	for _, name := range stored {
		if o.updates == 1 || name == "reference" && o.loss.Beta == 0 {
			continue
		}
		t, ok := f.Tensor(name)
		if !ok {
			return fmt.Errorf("%s: tensor %s is missing", f.Path(), name)
		}
		values, err := t.Float32s()
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path(), err)
		}
		for _, x := range o.samples() {
			n := len(x.tokens)
			if len(values) < n {
				return fmt.Errorf("%s: tensor %s is of other samples", f.Path(), name)
			}
			*x.stored(name), values = values[:n:n], values[n:]
		}
		if len(values) > 0 {
			return fmt.Errorf("%s: tensor %s is of other samples", f.Path(), name)
		}
	}
	return nil
}

// samples lists the samples of all groups.
func (o *objective) samples() (list []*sample) {
	for _, g := range o.groups {
		list = append(list, g.samples...)
	}
	return list
}

// logProbs computes the log-probability of each sample's tokens, without adapters if adapter is nil, and gives them to
// set.
func (o *objective) logProbs(ctx context.Context, adapter lm.Adapter, set func(x *sample, values []float32)) error {
	list := passes(o.groups, o.model.Config.Hidden, 2*o.micro) // no activations are kept
	return tensor.Parallel(len(list), func(i int, s *tensor.Scope) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		values := make([][]float32, len(list[i].samples))
		sc := o.model.Score(s, list[i].rows, adapter, false)
		eachToken(sc, func(k, of, _ int) { values[of] = append(values[of], sc.LogProbs[k]) })
		for of, x := range list[i].samples {
			set(x, values[of])
		}
		return nil
	})
}
