package lm

import "popri/model/tensor"

// attention is causal self-attention of heads query heads that share kvHeads heads of keys and values.
type attention struct {
	qkv                 projection // onto the queries, keys and values of all heads side by side
	out                 projection
	heads, kvHeads, dim int64
	qNorm, kNorm        norm // of queries and keys before they are turned, or nil
	together            bool // these norms are of all heads at once, not of each
	unturned            bool // positions do not turn queries and keys
	local               bool // they turn by the frequencies of local layers
}

// normed returns what [attention.qkv] gives with the norms of queries and keys applied.
func (a *attention) normed(s *tensor.Scope, qkv tensor.Tensor) tensor.Tensor {
	if a.qNorm == nil {
		return qkv
	}
	shape := qkv.Shape()
	part := func(n norm, from, heads int64) tensor.Tensor {
		x := s.Narrow(qkv, -1, from*a.dim, heads*a.dim)
		if n == nil {
			return x
		}
		if a.together {
			return n.apply(s, x)
		}
		x = n.apply(s, s.Reshape(x, shape[0], shape[1], heads, a.dim))
		return s.Reshape(x, shape[0], shape[1], heads*a.dim)
	}
	return s.Cat(-1, part(a.qNorm, 0, a.heads), part(a.kNorm, a.heads, a.kvHeads),
		part(nil, a.heads+a.kvHeads, a.kvHeads))
}

// fused returns queries, keys and values side by side, float32 [B, T, (N + 2·KV)·D], queries and keys turned by their
// positions. It is for decoding, without gradients.
func (a *attention) fused(s *tensor.Scope, x tensor.Tensor, r rotation, compute tensor.DType) tensor.Tensor {
	y := finish(s, a.qkv, x, compute, tensor.Epilogue{DType: tensor.Float32})
	y = a.normed(s, y)
	switch {
	case !r.cos.Defined():
	case r.cos.Size(-1) < a.dim:
		shape := y.Shape()
		all := s.View(s.Contiguous(y), shape[0], shape[1], -1, a.dim)
		turned := r.apply(s, s.Narrow(all, 2, 0, a.heads+a.kvHeads))
		y = s.View(s.Cat(2, turned, s.Narrow(all, 2, a.heads+a.kvHeads, a.kvHeads)), shape...)
	default:
		y = s.Contiguous(y)
		s.Rotate_(y, r.cos, r.sin, a.heads+a.kvHeads, a.dim)
	}
	return y
}

// split returns the queries [B, N, T, D] and the keys and values [B, KV, T, D] of what [attention.qkv] gives, queries
// and keys turned.
func (a *attention) split(s *tensor.Scope, qkv tensor.Tensor, r rotation) (q, k, v tensor.Tensor) {
	shape := tensor.HeadShape{Heads: a.heads, KVHeads: a.kvHeads, Dim: a.dim}
	if !r.cos.Defined() || r.cos.Size(-1) == a.dim {
		return s.SplitHeads(s.Contiguous(qkv), r.cos, r.sin, shape)
	}
	// A part of each head turns.
	size := qkv.Shape()
	all := s.View(qkv, size[0], size[1], -1, a.dim)
	turned := r.apply(s, s.Narrow(all, 2, 0, a.heads+a.kvHeads))
	turned = s.Transpose(turned, 1, 2)
	v = s.Transpose(s.Narrow(all, 2, a.heads+a.kvHeads, a.kvHeads), 1, 2)
	return s.Narrow(turned, 1, 0, a.heads), s.Narrow(turned, 1, a.heads, a.kvHeads), v
}

// attend returns the heads' outputs side by side [B, T, N·D], of queries [B, N, T, D] and of at least as many keys and
// values. The query heads that share keys are rows of one product with them.
func (a *attention) attend(s *tensor.Scope, q, k, v tensor.Tensor, c attentionInputs) tensor.Tensor {
	defer tensor.Attention.Enter()()
	shape := q.Shape()
	b, t, seen := shape[0], shape[2], k.Size(2)
	switch {
	case len(c.starts) > 0:
		return s.AttendRows(q, k, v, c.sights, c.starts, c.scale, c.drop.of(dropWeights))
	case c.cap == 0 && s.CanAttend(q, k, c.sights):
		return s.Attend(q, k, v, c.sights, c.scale, c.drop.of(dropWeights))
	}
	if a.heads > a.kvHeads {
		q = s.Reshape(q, b, a.kvHeads, -1, a.dim)
	}
	scores, scale := s.MatMul(q, s.Transpose(k, 2, 3)), c.scale
	if c.cap != 0 {
		scores, scale = s.Capped(s.MulScalar(scores, scale), c.cap), 1
	}
	scores = s.MaskedSoftmax(s.View(scores, b, a.heads, t, seen), c.mask, scale)
	scores = c.drop.apply(s, scores, dropWeights)
	y := s.MatMul(s.View(scores, b, a.kvHeads, -1, seen), v)
	y = s.Transpose(s.View(y, b, a.heads, t, a.dim), 1, 2)
	return s.Reshape(y, b, t, a.heads*a.dim)
}
