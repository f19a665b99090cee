package lm

import (
	"fmt"

	"popri/internal/numeric"
	"popri/model/tensor"
)

// Beginning has the keys and values of tokens that many rows continue from, so that these are computed once. Free releases
// them.
type Beginning struct {
	m            *Model
	length       int
	keys, values []tensor.Tensor // of each layer, [1, KV, length, D]; none of no tokens
}

// Begin computes what rows need of the tokens before them, which may be none.
func (m *Model) Begin(ids []int32) (*Beginning, error) {
	if !m.canSample() {
		return nil, fmt.Errorf("lm: a model of type %s does not write text", m.Config.Type)
	}
	if err := m.CheckTokens(ids); err != nil {
		return nil, err
	}
	b := &Beginning{m: m, length: len(ids)}
	if b.length == 0 {
		return b, nil
	}
	err := tensor.Run(func(s *tensor.Scope) error {
		s.NoGrad(func() {
			in := Input{IDs: s.FromInt64(numeric.Convert[int64](ids), 1, int64(len(ids)))}
			p := m.masked(s, m.scoreMask(s, in, int64(len(ids))))
			m.decode(s, in, func(layer int, qkv tensor.Tensor) tensor.Tensor {
				a := &m.blocks[layer].attn
				q, k, v := a.split(s, s.To(qkv, m.Compute), rotation{})
				b.keys, b.values = append(b.keys, s.Keep(s.Contiguous(k))), append(b.values, s.Keep(s.Contiguous(v)))
				return a.fast(s, q, k, v, p)
			})
		})
		return nil
	})
	if err != nil {
		b.Free()
		return nil, err
	}
	return b, nil
}

// Free releases the memory of keys and values.
func (b *Beginning) Free() {
	for i := range b.keys {
		b.keys[i].Free()
		b.values[i].Free()
	}
	b.keys, b.values = nil, nil
}

// Score is [Model.Score], without gradients or an adapter, of rows that continue from the beginning. The first token of a
// row is still not predicted. Each sequence must fit the model's context with the beginning. Several goroutines may
// call it.
func (b *Beginning) Score(s *tensor.Scope, rows []Row) (sc *Scored) {
	s.NoGrad(func() {
		m := b.m
		in := paddedRows(s, rows, b.length, m.Config.Context)
		width := in.IDs.Size(1)
		var positions []int64
		if sc, positions = m.counted(rows, in.rowStarts(len(rows))); len(positions) == 0 {
			return
		}
		n := in.IDs.Size(0)
		copies := s.FromInt64(make([]int64, n), n)
		mask := m.scoreMask(s, in, width)
		if b.length > 0 {
			mask = s.Cat(3, s.Zeros(m.Compute, n, 1, width, int64(b.length)), mask)
		}
		p := m.masked(s, mask)
		hidden := m.decode(s, in, func(layer int, qkv tensor.Tensor) tensor.Tensor {
			a := &m.blocks[layer].attn
			q, k, v := a.split(s, s.To(qkv, m.Compute), rotation{})
			if b.length > 0 {
				k = s.Cat(2, s.IndexSelect(b.keys[layer], 0, copies), k)
				v = s.Cat(2, s.IndexSelect(b.values[layer], 0, copies), v)
			}
			return a.fast(s, q, k, v, p)
		})
		sc.hidden = s.To(m.pick(s, hidden, s.FromInt64(positions, int64(len(positions))), dropout{}), m.Compute)
		sc.values(s, false)
	})
	return sc
}
