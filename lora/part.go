package lora

import (
	"fmt"
	"slices"

	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/lm"
	"popri/model/tensor"
)

// Part is what training at the clients changes of a model, as one vector: all its weights, or the matrices B of an
// adapter.
//
//	W + s·B·A     A stays as it was drawn, B begins at zero and is the vector
//
// With A frozen, the change of the weights is linear in the vector, so noise in it is not multiplied by noise, and the
// sum of the clients' vectors is the sum of their changes (FFA-LoRA, Sun et al. 2024). A short vector has little noise:
// its norm grows with the square root of the length.
type Part struct {
	Model   *lm.Model
	Adapter *Adapter // nil if all weights are the vector
	tensors []tensor.Tensor
	seed    uint64
	shares  bool // the model belongs to another part
}

// Whole is all weights of m, which must be float32, in the order of [lm.Model.Names].
func Whole(m *lm.Model) (*Part, error) {
	p := &Part{Model: m}
	for _, name := range m.Names() {
		t := m.Param(name)
		if t.DType() != tensor.Float32 {
			return nil, fmt.Errorf("lora: %s has the type %v, a vector of all weights needs float32", name, t.DType())
		}
		p.tensors = append(p.tensors, t)
	}
	return p, nil
}

// upsScale is alpha/rank. It sets the unit of the vector: with 16, a vector of norm 0.1 lowers the loss of SmolLM2 by
// about a hundredth of a nat (docs/lab/2026-11-28-adapter-at-clients.md).
const upsScale = 16

// Ups is the matrices B of a fresh adapter of m's projections onto the residual stream, sorted by module. The matrices A
// follow from the seed.
func Ups(m *lm.Model, rank int, seed uint64) (*Part, error) {
	a, err := New(m, Config{Rank: rank, Alpha: float64(upsScale * rank), Targets: m.Config.Residual()}, rng.New(seed, "lora", "part"))
	if err != nil {
		return nil, err
	}
	ups := numeric.Map(a.Names(), func(name string) tensor.Tensor { return a.Modules[name].B })
	return &Part{Model: m, Adapter: a, seed: seed, tensors: ups}, nil
}

// Another is a part of the same adapter's beginning with a vector of its own. It shares the model, which must live
// longer.
func (p *Part) Another() (*Part, error) {
	other, err := Ups(p.Model, p.Adapter.Config.Rank, p.seed)
	if err == nil {
		other.shares = true
	}
	return other, err
}

// Free releases the adapter and the model, unless the model is another part's.
func (p *Part) Free() {
	if p.Adapter != nil {
		p.Adapter.Free()
	}
	if !p.shares {
		p.Model.Free()
	}
}

// Len is the number of values of the vector.
func (p *Part) Len() int { return int(numeric.Sum(p.tensors, tensor.Tensor.NumElements)) }

// Flat copies the vector.
func (p *Part) Flat() []float32 {
	return slices.Concat(numeric.Map(p.tensors, tensor.Tensor.Host)...)
}

// Set overwrites the vector with one that [Part.Flat] returned.
func (p *Part) Set(flat []float32) error {
	if len(flat) != p.Len() {
		return fmt.Errorf("lora: a vector of %d values for %d weights", len(flat), p.Len())
	}
	if p.Adapter == nil {
		p.Model.Unpack() // the copies would not follow
	}
	for _, t := range p.tensors {
		n := t.NumElements()
		t.Store(flat[:n])
		flat = flat[n:]
	}
	return nil
}

// Trainable marks the vector's tensors as parameters and returns them.
func (p *Part) Trainable() ([]tensor.Tensor, error) {
	if p.Adapter == nil {
		return p.Model.Trainable()
	}
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, t := range p.tensors {
			s.RequireGrad(t, true)
		}
		return nil
	})
	return p.tensors, err
}

// Passes is what the model's passes take beside the model: the adapter, or nil.
func (p *Part) Passes() lm.Adapter {
	if p.Adapter == nil {
		return nil
	}
	return p.Adapter
}
