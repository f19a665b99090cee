package lm

import (
	"slices"
	"testing"

	"popri/model/tensor"
)

// descent trains a model's weights on the next-token loss as package trainer does, which imports this one.
type descent struct {
	m      *Model
	params []tensor.Tensor
	adam   *tensor.AdamW
	drop   Dropout // its seed is the first pass's
}

func newDescent(t testing.TB, m *Model) *descent {
	t.Helper()
	params, err := m.Trainable()
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, p := range params {
		sizes = append(sizes, int(p.NumElements()))
	}
	return &descent{m: m, params: params, adam: tensor.NewAdamW(0.9, 0.999, 1e-8, 0, sizes)}
}

// step does one update on rows in parts, and returns the loss before it and the gradient's norm.
func (d *descent) step(rows []Row, parts int, lr float64) (loss, norm float64, err error) {
	leaves, free, err := d.m.Leaves(d.params)
	if err != nil {
		return 0, 0, err
	}
	defer free()
	losses, grads := make([]float64, parts), make([][][]float32, parts)
	err = tensor.Parallel(parts, func(i int, s *tensor.Scope) error {
		drop := d.drop
		drop.Seed += uint64(100*d.adam.Step + i)
		var list []tensor.Tensor
		part := rows[i*len(rows)/parts : (i+1)*len(rows)/parts]
		losses[i], list = d.m.LossGradients(s, part, nil, leaves, d.m.Counted(rows), drop)
		for _, g := range list {
			grads[i] = append(grads[i], slices.Clone(s.Float32s(s.To(g, tensor.Float32))))
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	for i, part := range grads {
		loss += losses[i]
		for k := range part {
			for n := range part[k] {
				if i > 0 {
					grads[0][k][n] += part[k][n]
				}
			}
		}
	}
	values := make([][]float32, len(d.params))
	for i, p := range d.params {
		values[i] = p.Host()
	}
	norm = tensor.GlobalNorm(grads[0])
	err = d.adam.Update(values, grads[0], lr, tensor.ClipScale(norm, 0))
	for i, p := range d.params {
		p.Store(values[i])
	}
	return loss, norm, err
}
