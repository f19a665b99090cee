package lm

import "popri/model/tensor"

// An mlp works on each token's x [B, T, H] by itself.
type mlp interface {
	apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor
	// onto is residual plus the result of apply, as one operation; ok is false where there is no such.
	onto(s *tensor.Scope, x, residual tensor.Tensor, adapter Adapter) (y tensor.Tensor, ok bool)
	projections() []projection
	// decode is the result of apply without an adapter, and what o does with it.
	decode(s *tensor.Scope, x tensor.Tensor, o tensor.Epilogue, compute tensor.DType) tensor.Tensor
}

// activation is that of GPT-2's MLP and of BERT's.
func (c *Config) activation() tensor.Activation {
	if c.Gelu == "gelu" {
		return tensor.ActGelu
	}
	return tensor.ActGeluTanh
}

// geluMLP is down(gelu(up(x))).
type geluMLP struct {
	up, down *Linear
	act      tensor.Activation // GELU, exact or in its tanh form
}

func (m *geluMLP) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	return m.down.apply(s, s.Activate(m.act, m.up.apply(s, x, adapter)), adapter)
}

func (m *geluMLP) onto(s *tensor.Scope, x, residual tensor.Tensor, adapter Adapter) (y tensor.Tensor, ok bool) {
	if m.act != tensor.ActGeluTanh {
		return y, false
	}
	return frozenMLP(s, x, residual, m.up, m.down, false, adapter)
}

func (m *geluMLP) decode(s *tensor.Scope, x tensor.Tensor, o tensor.Epilogue, compute tensor.DType) tensor.Tensor {
	y := finish(s, m.up, x, compute, tensor.Epilogue{Act: m.act, DType: compute})
	return finish(s, m.down, y, compute, o)
}

func (m *geluMLP) projections() []projection { return []projection{m.up, m.down} }

// gatedMLP is down(act(gate(x))·up(x)): SwiGLU, or GeGLU with the tanh form of GELU (Shazeer 2020).
type gatedMLP struct {
	gateUp projection // both side by side
	down   *Linear
	gelu   bool
}

func (m *gatedMLP) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	return m.down.apply(s, m.gate(s, m.gateUp.apply(s, x, adapter)), adapter)
}

func (m *gatedMLP) onto(s *tensor.Scope, x, residual tensor.Tensor, adapter Adapter) (y tensor.Tensor, ok bool) {
	if m.gelu {
		return y, false
	}
	return frozenMLP(s, x, residual, m.gateUp, m.down, true, adapter)
}

func (m *gatedMLP) gate(s *tensor.Scope, y tensor.Tensor) tensor.Tensor {
	if !m.gelu {
		return s.SwiGLU(s.Contiguous(y))
	}
	inner := m.down.In
	return s.Mul(s.Activate(tensor.ActGeluTanh, s.Narrow(y, -1, 0, inner)), s.Narrow(y, -1, inner, inner))
}

func (m *gatedMLP) decode(s *tensor.Scope, x tensor.Tensor, o tensor.Epilogue, compute tensor.DType) tensor.Tensor {
	y := finish(s, m.gateUp, x, compute, tensor.Epilogue{DType: compute})
	if w := m.gateUp.product(); w.packed == nil || !w.packed.Gated {
		y = m.gate(s, y)
	}
	return finish(s, m.down, y, compute, o)
}

func (m *gatedMLP) projections() []projection { return []projection{m.gateUp, m.down} }

// frozenMLP is residual plus an MLP of weights that [Model.Freeze] has laid out.
func frozenMLP(s *tensor.Scope, x, residual tensor.Tensor, up, down projection, gates bool,
	adapter Adapter) (y tensor.Tensor, ok bool) {
	m := tensor.MLP{Up: up.product().laidOut(), Down: down.product().laidOut(), Gates: gates}
	if !s.CanMLP(m, x.DType()) || up.linears()[0].weight.RequiresGrad() {
		return y, false
	}
	if m.UpChange, ok = factors(s, up.linears(), adapter); !ok {
		return y, false
	}
	if m.DownChange, ok = factors(s, down.linears(), adapter); !ok {
		return y, false
	}
	shape := x.Shape()
	width := shape[len(shape)-1]
	return s.View(s.MLP(s.Reshape(x, -1, width), s.Reshape(residual, -1, width), m), shape...), true
}
