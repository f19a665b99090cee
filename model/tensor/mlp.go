package tensor

// #include "torch.h"
import "C"

import "slices"

// MLP is the MLP of a transformer, whose weights do not change and may have adapters.
type MLP struct {
	Up, Down             Weight
	UpChange, DownChange LowRank // without parts where nothing is added
	Gates                bool    // SwiGLU (Up has gates and inputs side by side), else GELU in its tanh form
}

// CanMLP reports whether [Scope.MLP] takes m with inputs of type d: on the CPU, if weights are laid out, gates as such.
func (s *Scope) CanMLP(m MLP, d DType) bool {
	return s.takesLaidOut(m.Up, d) && s.takesLaidOut(m.Down, d) && m.Up.Packed.Gated == m.Gates &&
		len(m.UpChange.Parts) <= lowRankParts && len(m.DownChange.Parts) <= lowRankParts
}

// MLP returns residual [n, H] plus what m makes of x [n, H], in their type, float32 or bfloat16. It needs
// [Scope.CanMLP], and has a gradient for x, residual and the factors of adapters. The backward pass keeps the inputs of
// GELU or of the gates and computes their results again.
func (s *Scope) MLP(x, residual Tensor, m MLP) (y Tensor) {
	x, residual = s.Contiguous(x), s.Contiguous(residual)
	if !s.CanMLP(m, x.DType()) || residual.DType() != x.DType() ||
		residual.NumElements() != x.Size(0)*m.Down.Packed.Out {
		refuse("MLP", "the weights are not laid out for inputs of this type, or the residual has another size", x, residual)
	}
	numbers := make([]float64, 1+2*(1+3*lowRankParts))
	act := ActGeluTanh
	if m.Gates {
		numbers[0], act = 1, NoActivation
	}
	partNumbers(numbers[1:], m.UpChange.Parts)
	partNumbers(numbers[2+3*lowRankParts:], m.DownChange.Parts)
	upInputs, up := s.changes(x, m.UpChange)
	downInputs, down := s.changes(x, m.DownChange)
	keeps := s.grad
	var pre Tensor
	s.NoGrad(func() {
		if keeps {
			pre = s.Empty(x.DType(), x.Size(0), m.Up.Packed.Out)
		}
		y = s.Nest(func() Tensor {
			h := m.Up.Packed.product(s, x, Epilogue{Bias: m.Up.Bias, Act: act},
				inner{added: s.added(x, m.Up.Packed.Out, m.UpChange, up), pre: pre})
			return m.Down.Packed.product(s, h, Epilogue{Bias: m.Down.Bias, Residual: residual},
				inner{added: s.added(h, m.Down.Packed.Out, m.DownChange, down)})
		})
	})
	if keeps {
		s.record(step{op: stepMLP, numbers: numbers,
			saved:   slices.Concat([]Tensor{x, m.Up.Back.data, m.Down.Back.data, pre}, up, down),
			inputs:  slices.Concat([]Tensor{x, residual}, upInputs, downInputs),
			outputs: []Tensor{y}})
	}
	return y
}

func mlpGradient(b backward) []Tensor {
	x, upBack, downBack, pre := b.saved[0], b.saved[1], b.saved[2], b.saved[3]
	dy := b.Contiguous(b.outGrads[0])
	grads := make([]Tensor, 6)
	width := pre.Size(1)
	gates := b.numbers[0] != 0
	if gates {
		width /= 2
	}
	h := b.Empty(x.DType(), x.Size(0), width)
	down := b.change(h, b.saved[7:], partsOf(b.numbers[2+3*lowRankParts:]))
	dpre := laidOut(downBack, dy.Size(1), width, x.DType()).product(b.Scope, dy, Epilogue{},
		inner{added: down.lowGrads(dy, Tensor{}), gradOf: pre, again: h, gates: gates})
	grads[4], grads[5] = down.factors(h, dy, b.wanted[4], b.wanted[5])
	up := b.change(x, b.saved[4:], partsOf(b.numbers[1:]))
	added := up.lowGrads(dpre, Tensor{})
	if b.wanted[0] {
		grads[0] = laidOut(upBack, pre.Size(1), x.Size(1), x.DType()).product(b.Scope, dpre, Epilogue{},
			inner{added: added})
	}
	if b.wanted[1] {
		grads[1] = b.Detach(dy)
	}
	grads[2], grads[3] = up.factors(x, dpre, b.wanted[2], b.wanted[3])
	return grads
}
