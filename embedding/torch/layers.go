package torch

import "popri/tensor"

// blockedScore is added to the scores of attention to padding.
const blockedScore = -1e30

// mask returns what is added to the scores of attention, so that it broadcasts to [B, heads, T, T]: padding is blocked,
// and relative positions have their bias. It is undefined if there is nothing to add.
func (e *Encoder) mask(s *tensor.Scope, blocked []float32, padded bool, b, t int64) (mask tensor.Tensor) {
	if padded {
		mask = s.To(s.FromFloat32(blocked, b, 1, 1, t), e.compute)
	}
	if e.relative == nil {
		return mask
	}
	c := e.folder.Config
	bias := s.To(s.FromFloat32(c.RelativeBias(e.relative, int(t)), 1, int64(c.Heads), t, t), e.compute)
	if padded {
		return s.Add(bias, mask)
	}
	return bias
}

// states runs the layers on the embedded tokens x [B, T, H].
func (e *Encoder) states(s *tensor.Scope, x, mask tensor.Tensor) tensor.Tensor {
	step := e.postNorm
	if e.folder.Config.PreNorm() {
		step = e.preNorm
	}
	for i := range e.layers {
		x = s.Nest(func() tensor.Tensor { return step(s, &e.layers[i], x, mask) })
	}
	if e.finalNorm.Defined() {
		x = s.RMSNorm(x, e.finalNorm, e.folder.Config.NormEps)
	}
	return x
}

// postNorm is a layer of BERT's kind: x ← norm(x + attention(x)), x ← norm(x + inner(x)).
func (e *Encoder) postNorm(s *tensor.Scope, l *layer, x, mask tensor.Tensor) tensor.Tensor {
	eps := e.folder.Config.NormEps
	y := s.LayerNorm(s.Add(x, e.attend(s, l, x, mask)), l.normW, l.normB, eps)
	z := s.Linear(s.Gelu(s.Linear(y, l.up, l.upB)), l.down, l.downB)
	return s.LayerNorm(s.Add(y, z), l.normW2, l.normB2, eps)
}

// preNorm is a layer of T5: x ← x + attention(norm(x)), x ← x + inner(norm(x)).
func (e *Encoder) preNorm(s *tensor.Scope, l *layer, x, mask tensor.Tensor) tensor.Tensor {
	c := e.folder.Config
	x = s.Add(x, e.attend(s, l, s.RMSNorm(x, l.normW, c.NormEps), mask))
	y := s.RMSNorm(x, l.normW2, c.NormEps)
	inner := s.Linear(y, l.up, l.upB)
	if c.Act == "relu" {
		inner = s.Relu(inner)
	} else {
		inner = s.GeluTanh(inner)
	}
	if c.Gated {
		inner = s.Mul(inner, s.Linear(y, l.gate, tensor.Tensor{}))
	}
	return s.Add(x, s.Linear(inner, l.down, l.downB))
}

func (e *Encoder) attend(s *tensor.Scope, l *layer, x, mask tensor.Tensor) tensor.Tensor {
	c := e.folder.Config
	shape := x.Shape()
	b, t, heads, d := shape[0], shape[1], int64(c.Heads), int64(c.HeadDim)
	qkv := s.View(s.Linear(x, l.qkv, l.qkvB), b, t, 3, heads, d)
	parts := s.Unbind(s.Permute(qkv, 2, 0, 3, 1, 4), 0)
	scores := s.MatMul(parts[0], s.Transpose(parts[1], 2, 3))
	if mask.Defined() {
		scores = s.Add(scores, mask)
	}
	y := s.MatMul(s.Softmax(scores, -1), parts[2])
	return s.Linear(s.Reshape(s.Transpose(y, 1, 2), b, t, heads*d), l.out, l.outB)
}
