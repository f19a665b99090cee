package lm

import "popri/model/tensor"

// head maps the final norm's outputs to logits.
type head struct {
	weight       tensor.Tensor  // [V, H]; of a classifier [C, H]
	bias         tensor.Tensor  // [V], of BERT; else none
	pooler       *Linear        // before the head of a BERT that classifies; else nil
	packed, back *tensor.Packed // the weight and its transpose as they are laid out; nil for none
	cast         tensor.Tensor  // the weight in the type of the products, or none
}

// laidOut reports whether the weight and its transpose are laid out for products of type d.
func (h *head) laidOut(d tensor.DType) bool { return h.back != nil && h.back.DType == d }

// layOut lays the weight and its transpose out for products of type d.
func (h *head) layOut(s *tensor.Scope, d tensor.DType) {
	w := s.Detach(h.weight)
	h.packed, h.back = s.Pack(w, false, false, d), s.Pack(w, true, false, d)
}

// release releases what was laid out or converted.
func (h *head) release() {
	h.packed.Free()
	h.back.Free()
	h.cast.Free()
	h.packed, h.back, h.cast = nil, nil, tensor.Tensor{}
}

// Logits maps hidden states [..., H] to float32 logits [..., V].
func (m *Model) Logits(s *tensor.Scope, hidden tensor.Tensor) tensor.Tensor {
	defer tensor.Head.Enter()()
	if m.packed() && !s.Recording() {
		return m.capped(s, m.head.packed.Product(s, hidden, tensor.Epilogue{DType: tensor.Float32}))
	}
	bias := m.head.bias
	if bias.Defined() {
		bias = s.To(bias, hidden.DType())
	}
	return m.capped(s, s.To(s.Linear(hidden, s.To(m.head.weight, hidden.DType()), bias), tensor.Float32))
}

// draw is [tensor.Sampler.Draw] from the logits of hidden [n, H].
func (m *Model) draw(s *tensor.Scope, hidden tensor.Tensor, d *tensor.Sampler, u []float64, ban []bool) []int32 {
	if m.packed() && m.Config.LogitsCap == 0 && d.Streams(m.head.packed) {
		defer tensor.Head.Enter()()
		return d.DrawFrom(s, m.head.packed, hidden, u, ban)
	}
	return d.Draw(s, s.Contiguous(m.Logits(s, hidden)), u, ban)
}

// headCap is [Config.LogitsCap], which a classifier's head does not have.
func (c Config) headCap() float64 {
	if c.Classifies() {
		return 0
	}
	return c.LogitsCap
}

// capped are logits with [Config.headCap].
func (m *Model) capped(s *tensor.Scope, logits tensor.Tensor) tensor.Tensor {
	if limit := m.Config.headCap(); limit != 0 {
		return s.Capped(logits, limit)
	}
	return logits
}

// projectHead maps hidden states [n, H] to logits [n, V] of their type, without a bias, a cap and a gradient.
func (m *Model) projectHead(s *tensor.Scope, h tensor.Tensor) tensor.Tensor {
	if m.head.laidOut(h.DType()) {
		return m.head.packed.Product(s, h, tensor.Epilogue{})
	}
	return s.MatMul(h, s.Transpose(m.head.in(s, h.DType()), 0, 1))
}

// headGradient maps gradients of logits [n, V] to gradients of hidden states.
func (m *Model) headGradient(s *tensor.Scope, logits tensor.Tensor) tensor.Tensor {
	if m.head.laidOut(logits.DType()) {
		return m.head.back.Product(s, logits, tensor.Epilogue{})
	}
	return s.MatMul(logits, m.head.in(s, logits.DType()))
}

// in returns the weight in type d.
func (h *head) in(s *tensor.Scope, d tensor.DType) tensor.Tensor {
	if h.cast.Defined() && h.cast.DType() == d {
		return h.cast
	}
	return s.To(s.Detach(h.weight), d)
}
