package lm

import "popri/tensor"

// An mlp works on each token's x [B, T, H] by itself.
type mlp interface {
	apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor
	projections() []projection
	// decode is residual plus the result of apply without an adapter.
	decode(s *tensor.Scope, x, residual tensor.Tensor, compute tensor.DType) tensor.Tensor
}

// geluMLP is down(gelu(up(x))).
type geluMLP struct {
	up, down *Linear
	exact    bool // the exact error function instead of the tanh approximation
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

func (m *geluMLP) decode(s *tensor.Scope, x, residual tensor.Tensor, compute tensor.DType) tensor.Tensor {
	y := finish(s, m.up, x, compute, tensor.Epilogue{Gelu: !m.exact, DType: compute})
	if m.exact {
		y = s.Gelu(y)
	}
	return finish(s, m.down, y, compute, tensor.Epilogue{Residual: residual, DType: residual.DType()})
}

func (m *geluMLP) projections() []projection { return []projection{m.up, m.down} }

// gatedMLP is down(silu(gate(x))·up(x)) (SwiGLU, Shazeer 2020).
type gatedMLP struct {
	gateUp projection // both side by side
	down   *Linear
}

func (m *gatedMLP) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	return m.down.apply(s, m.gate(s, m.gateUp.apply(s, x, adapter)), adapter)
}

func (m *gatedMLP) gate(s *tensor.Scope, y tensor.Tensor) tensor.Tensor {
	inner := m.down.In
	return s.Mul(s.Silu(s.Narrow(y, -1, 0, inner)), s.Narrow(y, -1, inner, inner))
}

func (m *gatedMLP) decode(s *tensor.Scope, x, residual tensor.Tensor, compute tensor.DType) tensor.Tensor {
	y := finish(s, m.gateUp, x, compute, tensor.Epilogue{DType: compute})
	if w := m.gateUp.product(); w.packed == nil || !w.packed.Gated {
		y = s.SwiGLU(s.Contiguous(y))
	}
	return finish(s, m.down, y, compute, tensor.Epilogue{Residual: residual, DType: residual.DType()})
}

func (m *gatedMLP) projections() []projection { return []projection{m.gateUp, m.down} }
