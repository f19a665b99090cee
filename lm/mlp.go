package lm

import (
	"slices"

	"popri/tensor"
)

// An mlp works on each token's x [B, T, H] by itself.
type mlp interface {
	apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor
	linears() []*Linear
}

// geluMLP is down(gelu(up(x))).
type geluMLP struct {
	up, down *Linear
	exact    bool // the error function, not the tanh approximation
}

func (m *geluMLP) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	y := m.up.apply(s, x, adapter)
	if m.exact {
		y = s.Gelu(y)
	} else {
		y = s.GeluTanh(y)
	}
	return m.down.apply(s, y, adapter)
}

func (m *geluMLP) linears() []*Linear { return []*Linear{m.up, m.down} }

// gatedMLP is down(silu(gate(x))·up(x)) (SwiGLU, Shazeer 2020).
type gatedMLP struct {
	gateUp projection // both side by side
	down   *Linear
}

func (m *gatedMLP) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	y := m.gateUp.apply(s, x, adapter)
	inner := m.down.In
	y = s.Mul(s.Silu(s.Narrow(y, -1, 0, inner)), s.Narrow(y, -1, inner, inner))
	return m.down.apply(s, y, adapter)
}

func (m *gatedMLP) linears() []*Linear { return slices.Concat(m.gateUp.linears(), m.down.linears()) }
