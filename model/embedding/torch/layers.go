package torch

import "popri/model/tensor"

// blockedScore is added to the scores of attention to padding.
const blockedScore = -1e30

// linear maps x [..., in] to [..., out].
type linear struct {
	weight, bias tensor.Tensor // [out, in] and [out], or no bias
	packed       *tensor.Packed
}

func (l *linear) apply(s *tensor.Scope, x tensor.Tensor, after tensor.Epilogue) tensor.Tensor {
	if l.packed != nil {
		after.Bias = l.bias
		return l.packed.Product(s, x, after)
	}
	return after.Finish(s, s.Linear(x, l.weight, l.bias))
}

// product is apply without the bias.
func (l *linear) product(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	if l.packed != nil {
		return l.packed.Product(s, x, tensor.Epilogue{})
	}
	return s.MatMul(x, s.Transpose(l.weight, 0, 1))
}

// attention says who looks at whom: within padded rows of tokens, or within texts that are behind each other.
type attention struct {
	rows, columns int64         // padded; else 0
	blocked       tensor.Tensor // added to the scores [rows, heads, columns, columns], or none
	starts        []int32       // of the texts, and their end
	bias          tensor.Tensor // [heads, n, n] for the texts, or none
}

// padded returns the attention within b rows of t tokens, some of which are blocked.
func (e *Encoder) padded(s *tensor.Scope, blocked []float32, any bool, b, t int64) attention {
	var mask tensor.Tensor
	if any {
		mask = s.To(s.FromFloat32(blocked, b, 1, 1, t), e.compute)
	}
	if e.relative != nil {
		bias := s.To(e.bias(s, t), e.compute)
		if any {
			bias = s.Add(bias, mask)
		}
		mask = bias
	}
	return attention{rows: b, columns: t, blocked: mask}
}

// bias is what relative positions add to the scores, [1, heads, t, t].
func (e *Encoder) bias(s *tensor.Scope, t int64) tensor.Tensor {
	c := e.folder.Config
	return s.FromFloat32(c.RelativeBias(e.relative, int(t)), 1, int64(c.Heads), t, t)
}

// states runs the layers on the embedded tokens x [..., H].
func (e *Encoder) states(s *tensor.Scope, x tensor.Tensor, a attention) tensor.Tensor {
	if e.fused != nil {
		return s.EncodeTexts(x, a.starts, e.fused, e.folder.Config.Heads, e.folder.Config.NormEps, a.bias)
	}
	step := e.postNorm
	switch {
	case e.folder.Config.PreNorm():
		step = e.preNorm
	case e.dense:
		step = e.densePostNorm
	}
	for i := range e.layers {
		x = s.Nest(func() tensor.Tensor { return step(s, &e.layers[i], x, a) })
	}
	if e.finalNorm.Defined() {
		x = s.RMSNorm(x, e.finalNorm, e.folder.Config.NormEps)
	}
	return x
}

// postNorm is a layer of BERT's kind: x ← norm(x + attention(x)), x ← norm(x + inner(x)).
func (e *Encoder) postNorm(s *tensor.Scope, l *layer, x tensor.Tensor, a attention) tensor.Tensor {
	eps := e.folder.Config.NormEps
	y := s.FusedLayerNorm(e.attend(s, l, x, x, a), l.normW, l.normB, eps)
	inner := l.up.apply(s, y, tensor.Epilogue{Act: tensor.ActGelu})
	return s.FusedLayerNorm(l.down.apply(s, inner, tensor.Epilogue{Residual: y}), l.normW2, l.normB2, eps)
}

// densePostNorm is [Encoder.postNorm] of float32 texts that are behind each other. Between the products it goes over
// memory once.
func (e *Encoder) densePostNorm(s *tensor.Scope, l *layer, x tensor.Tensor, a attention) tensor.Tensor {
	eps := e.folder.Config.NormEps
	y := l.out.product(s, s.AttendTexts(l.qkv.product(s, x), l.qkv.bias, a.starts, e.folder.Config.Heads, a.bias))
	s.AddLayerNorm_(y, x, l.addNorm, eps)
	inner := l.up.product(s, y)
	s.AddGelu_(inner, l.up.bias)
	z := l.down.product(s, inner)
	s.AddLayerNorm_(z, y, l.addNorm2, eps)
	return z
}

// preNorm is a layer of T5: x ← x + attention(norm(x)), x ← x + inner(norm(x)).
func (e *Encoder) preNorm(s *tensor.Scope, l *layer, x tensor.Tensor, a attention) tensor.Tensor {
	c := e.folder.Config
	x = e.attend(s, l, s.RMSNorm(x, l.normW, c.NormEps), x, a)
	y := s.RMSNorm(x, l.normW2, c.NormEps)
	act := tensor.ActGeluTanh
	if c.Act == "relu" {
		act = tensor.ActRelu
	}
	inner := l.up.apply(s, y, tensor.Epilogue{Act: act})
	if c.Gated {
		inner = s.Mul(inner, l.gate.apply(s, y, tensor.Epilogue{}))
	}
	return l.down.apply(s, inner, tensor.Epilogue{Residual: x})
}

// attend returns residual plus the attention of x.
func (e *Encoder) attend(s *tensor.Scope, l *layer, x, residual tensor.Tensor, a attention) tensor.Tensor {
	c := e.folder.Config
	heads, d := int64(c.Heads), int64(c.HeadDim)
	qkv := l.qkv.apply(s, x, tensor.Epilogue{})
	var y tensor.Tensor
	if a.starts != nil {
		y = s.AttendTexts(qkv, tensor.Tensor{}, a.starts, c.Heads, a.bias)
	} else {
		parts := s.Unbind(s.Permute(s.View(qkv, a.rows, a.columns, 3, heads, d), 2, 0, 3, 1, 4), 0)
		scores := s.MatMul(parts[0], s.Transpose(parts[1], 2, 3))
		if a.blocked.Defined() {
			scores = s.Add(scores, a.blocked)
		}
		y = s.Reshape(s.Transpose(s.MatMul(s.Softmax(scores, -1), parts[2]), 1, 2), a.rows, a.columns, heads*d)
	}
	return l.out.apply(s, y, tensor.Epilogue{Residual: residual})
}
