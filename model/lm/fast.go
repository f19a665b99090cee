package lm

import "popri/model/tensor"

// The fast form of a block joins the steps of its formula where there is a kernel for several of them: a norm with the
// gradient of the residual stream, a projection with an adapter and the residual, an MLP of frozen weights, attention
// without scores in memory.

// byFormula reports whether blocks are computed by their formulas.
func (m *Model) byFormula() bool { return m.formulas || tensor.Portable() }

// fast computes a block. Tensors that are not needed further are freed at the end: without gradients, all but the
// result.
func (p pass) fast(s *tensor.Scope, b *block, x tensor.Tensor) tensor.Tensor {
	before, after := b.norms()
	h, x := normResidual(s, before[0], x)
	y := s.Nest(func() tensor.Tensor {
		qkv := b.attn.normed(s, b.attn.qkv.fast(s, h, tensor.Tensor{}, p.adapter))
		q, k, v := b.attn.split(s, qkv, p.rotations.of(&b.attn))
		return rowsAt(s, b.attn.fast(s, q, k, v, p), p.rows)
	})
	x = rowsAt(s, x, p.rows)
	in := x
	if b.attnOut == nil && p.drop.Rate == 0 {
		x = b.attn.out.fast(s, y, x, p.adapter)
	} else {
		y = normed(s, b.attnOut, b.attn.out.fast(s, y, tensor.Tensor{}, p.adapter))
		x = s.Add(x, p.drop.apply(s, y, dropAttention))
	}
	if b.parallel {
		h = normed(s, before[1], in)
	} else {
		h, x = normResidual(s, before[1], normed(s, after[0], x))
	}
	if b.mlpOut == nil && p.drop.Rate == 0 {
		if y, ok := b.mlp.frozen(s, h, x, p.adapter); ok {
			return normed(s, after[1], y)
		}
	}
	y = b.mlp.act.apply(s, b.mlp.up.fast(s, h, tensor.Tensor{}, p.adapter))
	y = normed(s, b.mlpOut, b.mlp.down.fast(s, y, tensor.Tensor{}, p.adapter))
	return normed(s, after[1], s.Add(x, p.drop.apply(s, y, dropMLP)))
}

// normResidual applies a norm, or nothing where it is nil, and returns x again for the residual connection. Where the
// norm can, it adds the gradient of the residual to its own in one pass.
func normResidual(s *tensor.Scope, n norm, x tensor.Tensor) (y, residual tensor.Tensor) {
	switch n := n.(type) {
	case layerNorm:
		return s.LayerNormResidual(x, n.of.vector(n.weight), n.of.vector(n.bias), n.eps)
	case rmsNorm:
		return s.RMSNormResidual(s.Contiguous(x), n.factor(s), n.eps)
	}
	return normed(s, n, x), x
}

// normed returns queries, keys and values side by side of what [attention.qkv] gives, with the norms of queries and keys
// applied.
func (a *attention) normed(s *tensor.Scope, qkv tensor.Tensor) tensor.Tensor {
	qkv = a.sideBySide(s, qkv)
	if a.qNorm == nil {
		return qkv
	}
	shape := qkv.Shape()
	part := func(n norm, from, heads int64) tensor.Tensor {
		x := s.Narrow(qkv, -1, from*a.dim, heads*a.dim)
		if n == nil || a.allHeads {
			return normed(s, n, x)
		}
		x = n.apply(s, s.Reshape(x, shape[0], shape[1], heads, a.dim))
		return s.Reshape(x, shape[0], shape[1], heads*a.dim)
	}
	return s.Cat(-1, part(a.qNorm, 0, a.heads), part(a.kNorm, a.heads, a.kvHeads), part(nil, a.heads+a.kvHeads, a.kvHeads))
}

// rotated rotates the queries and keys of qkv [B, T, (N + 2·KV)·D] and returns all heads, [B, T, N + 2·KV, D].
func (a *attention) rotated(s *tensor.Scope, qkv tensor.Tensor, r rotation) tensor.Tensor {
	shape := qkv.Shape()
	all := s.View(qkv, shape[0], shape[1], -1, a.dim)
	rotated := r.apply(s, s.Narrow(all, 2, 0, a.heads+a.kvHeads))
	return s.Cat(2, rotated, s.Narrow(all, 2, a.heads+a.kvHeads, a.kvHeads))
}

// split returns the queries [B, N, T, D] and the keys and values [B, KV, T, D] of what [attention.qkv] gives, queries
// and keys rotated.
func (a *attention) split(s *tensor.Scope, qkv tensor.Tensor, r rotation) (q, k, v tensor.Tensor) {
	shape := tensor.HeadShape{Heads: a.heads, KVHeads: a.kvHeads, Dim: a.dim}
	if !r.cos.Defined() || r.cos.Size(-1) == a.dim {
		return s.SplitHeads(s.Contiguous(qkv), r.cos, r.sin, shape)
	}
	all := s.Transpose(a.rotated(s, qkv, r), 1, 2) // a part of each head rotates
	return s.Narrow(all, 1, 0, a.heads), s.Narrow(all, 1, a.heads, a.kvHeads), s.Narrow(all, 1, a.heads+a.kvHeads, a.kvHeads)
}

// fast is [attention.attend], by kernels that keep no scores in memory where there are such.
func (a *attention) fast(s *tensor.Scope, q, k, v tensor.Tensor, p pass) tensor.Tensor {
	switch {
	case len(p.starts) > 0:
		defer tensor.Attention.Enter()()
		return s.AttendRows(q, k, v, p.kernelMask, p.starts, p.m.scale(), p.drop.of(dropWeights))
	case p.m.Config.AttnCap == 0 && s.CanAttend(q, k, p.kernelMask):
		defer tensor.Attention.Enter()()
		return s.Attend(q, k, v, p.kernelMask, p.m.scale(), p.drop.of(dropWeights))
	}
	return a.attend(s, q, k, v, p)
}

// fast returns x·weight + bias, of a weight that is laid out where there is one.
func (w *matrix) fast(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	// Products with packed weights record no gradient.
	if w.packed != nil && w.packed.DType == x.DType() && !s.Recording() {
		return w.packed.Outputs(s, x, w.biasIn(tensor.Float32))
	}
	if w.back != nil && w.back.DType == x.DType() && s.Recording() {
		laid := w.laidOut()
		laid.Matrix, _ = w.of(s, x.DType())
		return inRows(s, x, func(x tensor.Tensor) tensor.Tensor { return s.Trained(x, laid) })
	}
	return w.plain(s, x)
}

// laidOut is the weight as it is laid out, with the bias in float32.
func (w *matrix) laidOut() tensor.Weight {
	return tensor.Weight{Bias: w.biasIn(tensor.Float32), InOut: w.InOut, Packed: w.packed, Back: w.back}
}

// fast is the projection with an adapter, plus residual, if that is defined.
func (p projection) fast(s *tensor.Scope, x, residual tensor.Tensor, adapter Adapter) tensor.Tensor {
	if adapter != nil || residual.Defined() {
		if y, ok := p.adapted(s, x, residual, adapter); ok {
			return y
		}
	}
	y := p.apply(s, x, adapter, (*matrix).fast)
	if residual.Defined() {
		y = s.Add(residual, y)
	}
	return y
}

// lowRank is an adapter whose change of projections of one input can be a product of low rank.
type lowRank interface {
	// Factors returns what is added to the outputs of parts side by side; no parts of it where nothing is. ok is false
	// where the change is another one.
	Factors(s *tensor.Scope, parts []*Linear) (l tensor.LowRank, ok bool)
}

// factors are what an adapter, or none, adds to the outputs. ok is false where its change is another one.
func (p projection) factors(s *tensor.Scope, adapter Adapter) (l tensor.LowRank, ok bool) {
	if adapter == nil {
		return l, true
	}
	a, ok := adapter.(lowRank)
	if !ok {
		return l, false
	}
	return a.Factors(s, p.parts)
}

// adapted is the projection with an adapter as one operation, plus residual, if that is defined. Where the weight is
// laid out, the sum is rounded once. ok is false where the adapter must be applied to each of the parts, or these are
// trained.
func (p projection) adapted(s *tensor.Scope, x, residual tensor.Tensor, adapter Adapter) (y tensor.Tensor, ok bool) {
	if p.trained() {
		return y, false
	}
	l, ok := p.factors(s, adapter)
	if !ok {
		return y, false
	}
	w := p.matrix.laidOut()
	if !w.LaidOut(x.DType()) {
		if len(l.Parts) == 0 {
			if y = p.matrix.fast(s, x); residual.Defined() {
				y = s.Add(residual, y)
			}
			return y, true
		}
		w.Matrix, w.Bias = p.matrix.of(s, x.DType())
	}
	if residual.Defined() {
		residual = s.Reshape(residual, -1, residual.Size(-1))
	}
	return inRows(s, x, func(x tensor.Tensor) tensor.Tensor { return s.Adapted(x, w, l, residual) }), true
}

// frozen is residual plus the MLP as one operation, of weights that [Model.Freeze] has laid out. ok is false where there
// is no such.
func (f *mlp) frozen(s *tensor.Scope, x, residual tensor.Tensor, adapter Adapter) (y tensor.Tensor, ok bool) {
	if f.act != geluTanh && f.act != swiGLU {
		return y, false
	}
	m := tensor.MLP{Up: f.up.laidOut(), Down: f.down.laidOut(), Gates: f.act == swiGLU}
	if !s.CanMLP(m, x.DType()) || f.up.trained() {
		return y, false
	}
	if m.UpChange, ok = f.up.factors(s, adapter); !ok {
		return y, false
	}
	if m.DownChange, ok = f.down.factors(s, adapter); !ok {
		return y, false
	}
	shape := x.Shape()
	width := shape[len(shape)-1]
	return s.View(s.MLP(s.Reshape(x, -1, width), s.Reshape(residual, -1, width), m), shape...), true
}
