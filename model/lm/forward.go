package lm

import (
	"math"

	"popri/model/tensor"
)

// A pass is what the blocks of one forward pass have in common.
type pass struct {
	m       *Model
	adapter Adapter
	rotations
	mask       tensor.Tensor // added to the scores
	kernelMask tensor.Tensor // the mask in the type that attention without scores in memory takes, if the CPU has it
	starts     []int64       // of packed sequences, see [Input]
	drop       dropout
	rows       tensor.Tensor // the flat positions that are wanted of the last block; none: all
}

func (m *Model) newPass(s *tensor.Scope, in Input, adapter Adapter) pass {
	width := in.IDs.Size(1)
	if len(in.starts) > 0 {
		width = int64(in.longest)
	}
	p := m.masked(s, m.scoreMask(s, in, width))
	p.adapter, p.rotations, p.starts, p.drop, p.rows = adapter, m.rotations(s, in, m.Compute), in.starts, in.drop, in.rows
	return p
}

// masked is a pass with this mask, without rotations, an adapter and dropout.
func (m *Model) masked(s *tensor.Scope, mask tensor.Tensor) pass {
	p := pass{m: m, mask: mask, kernelMask: mask}
	if s.CanAttendHeads(m.Compute, int64(m.Config.HeadDim())) {
		p.kernelMask = s.To(mask, tensor.BFloat16)
	}
	return p
}

// block maps x to the output of block i.
func (p pass) block(s *tensor.Scope, i int, x tensor.Tensor) tensor.Tensor {
	b := &p.m.blocks[i]
	p.drop = p.drop.in(i)
	if i < len(p.m.blocks)-1 {
		p.rows = tensor.Tensor{}
	}
	return s.Nest(func() tensor.Tensor {
		if p.m.byFormula() {
			return rowsAt(s, b.formula(&plain{Scope: s, pass: p}, b, x), p.rows)
		}
		return p.fast(s, b, x)
	})
}

// Hidden runs the decoder and returns the final norm's output [B, T, H] in the model's compute type.
func (m *Model) Hidden(s *tensor.Scope, in Input, adapter Adapter) tensor.Tensor {
	m.whole("Hidden")
	x := m.embed(s, in)
	p := m.newPass(s, in, adapter)
	for i := range m.blocks {
		x = p.block(s, i, x)
	}
	return normed(s, m.norm, x)
}

// rowsAt returns the rows [1, n, H] of x [B, T, H] at flat positions [n]; all of x if there are none.
func rowsAt(s *tensor.Scope, x, positions tensor.Tensor) tensor.Tensor {
	if !positions.Defined() {
		return x
	}
	width := x.Size(-1)
	return s.View(s.IndexSelect(s.Reshape(x, -1, width), 0, positions), 1, -1, width)
}

// scale multiplies the attention scores.
func (m *Model) scale() float64 {
	switch {
	case m.Config.AttnScale != 0:
		return m.Config.AttnScale
	case !m.Config.ScaleAttn:
		return 1
	}
	return 1 / math.Sqrt(float64(m.Config.HeadDim()))
}

// embedding is what the first block's input is made of.
type embedding struct {
	tokens, positions tensor.Tensor // [V, H], [context, H] or none
	project           tensor.Tensor // [H, E] of OPT, whose tokens are [V, E], or none
	types             tensor.Tensor // [types, H] of BERT, or none
	scale             float64       // by which the sum is multiplied; 0 for not at all
	norm              norm          // of the sum, or nil
}

func (m *Model) embed(s *tensor.Scope, in Input) tensor.Tensor {
	e := m.embedding
	x := s.Embedding(e.tokens, in.IDs)
	if in.leaf != nil {
		x = s.Detach(x)
		s.RequireGrad(x, true)
		*in.leaf = x
	}
	if e.project.Defined() {
		x = s.Linear(x, e.project, tensor.Tensor{})
	}
	if e.positions.Defined() {
		table := e.positions
		if first := int64(m.Config.FirstPosition); first > 0 {
			table = s.Narrow(table, 0, first, int64(m.Config.Context))
		}
		if in.Positions.Defined() {
			x = s.Add(x, s.Embedding(table, in.Positions))
		} else {
			x = s.Add(x, s.Narrow(table, 0, 0, in.IDs.Size(1)))
		}
	}
	if e.types.Defined() {
		x = s.Add(x, s.Narrow(e.types, 0, 0, 1))
	}
	x = s.To(x, m.Compute)
	if e.scale != 0 {
		x = s.MulScalar(x, rounded(e.scale, m.Compute))
	}
	return in.drop.apply(s, normed(s, e.norm, x), dropEmbedding)
}

// rounded is x as the type d holds it.
func rounded(x float64, d tensor.DType) float64 {
	if d != tensor.BFloat16 {
		return float64(float32(x))
	}
	bits := math.Float32bits(float32(x))
	return float64(math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff))
}
