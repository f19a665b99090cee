package lm

import (
	"fmt"

	"popri/model/tensor"
)

// Flat copies all weights, which must be float32, into one vector, in the order of [Model.Names].
func (m *Model) Flat() ([]float32, error) {
	flat := make([]float32, 0, m.Parameters())
	for _, name := range m.Names() {
		p := m.params[name]
		if p.DType() != tensor.Float32 {
			return nil, fmt.Errorf("lm: %s has the type %v, a vector of all weights needs float32", name, p.DType())
		}
		flat = append(flat, p.Host()...)
	}
	return flat, nil
}

// SetFlat overwrites all weights, which must be float32, with those of a vector that [Model.Flat] returned.
func (m *Model) SetFlat(flat []float32) error {
	if int64(len(flat)) != m.Parameters() {
		return fmt.Errorf("lm: a vector of %d values for %d weights", len(flat), m.Parameters())
	}
	m.unpack() // the copies would not follow
	for _, name := range m.Names() {
		p := m.params[name]
		n := p.NumElements()
		p.Store(flat[:n])
		flat = flat[n:]
	}
	return nil
}
