package lm

import (
	"fmt"

	"popri/internal/numeric"
	"popri/model/tensor"
)

// decode runs the decoder over the tokens of in without gradients or an adapter, for sampling, and returns the final
// norm's output [B, T, H]. It is [Model.Hidden] with every operation in its fastest form, which may round differently.
// attend computes the blocks' attention: from queries, keys and values side by side, float32 [B, T, (N + 2·KV)·D],
// queries and keys rotated, to [B, T, N·D].
func (m *Model) decode(s *tensor.Scope, in Input, attend func(layer int, qkv tensor.Tensor) tensor.Tensor) tensor.Tensor {
	x := m.embed(s, in)
	p := pass{m: m}
	if m.byFormula() {
		p.rotations = m.rotations(s, in, m.Compute)
	} else {
		p.rotations = m.rotations(s, in, tensor.Float32)
		if m.packed() {
			x = s.To(x, tensor.Float32) // products round their inputs; other operations need not
		}
	}
	for i := range m.blocks {
		b, attend := &m.blocks[i], func(qkv tensor.Tensor) tensor.Tensor { return attend(i, qkv) }
		x = s.Nest(func() tensor.Tensor {
			if m.byFormula() {
				return b.formula(&plain{s, p, attend}, b, x)
			}
			return p.decode(s, b, x, attend)
		})
	}
	return normed(s, m.norm, x)
}

// decode is the fast form of a block for decoding.
func (p pass) decode(s *tensor.Scope, b *block, x tensor.Tensor,
	attend func(qkv tensor.Tensor) tensor.Tensor) tensor.Tensor {
	d, in := p.m.Compute, x
	before, after := b.norms()
	qkv := s.Contiguous(b.attn.decode(s, normed(s, before[0], x), p.rotations.of(&b.attn), d))
	x = normed(s, after[0], addTo(s, x, b.attnOut, func(o tensor.Epilogue) tensor.Tensor {
		return b.attn.out.decode(s, attend(qkv), d, o)
	}))
	if !b.parallel {
		in = x
	}
	return normed(s, after[1], addTo(s, x, b.mlpOut, func(o tensor.Epilogue) tensor.Tensor {
		return b.mlp.decode(s, normed(s, before[1], in), d, o)
	}))
}

// addTo is the residual stream x plus what f computes, after a norm of it unless that is nil.
func addTo(s *tensor.Scope, x tensor.Tensor, n norm, f func(o tensor.Epilogue) tensor.Tensor) tensor.Tensor {
	if n == nil {
		return f(tensor.Epilogue{Residual: x, DType: x.DType()})
	}
	return s.Add(x, n.apply(s, f(tensor.Epilogue{DType: x.DType()})))
}

// decode computes the projection of x, of any floating-point type, without an adapter and without gradients, and the
// operations of o after it.
func (p projection) decode(s *tensor.Scope, x tensor.Tensor, compute tensor.DType, o tensor.Epilogue) tensor.Tensor {
	if p.packed != nil {
		o.Bias = p.biasIn(tensor.Float32)
		return p.packed.Product(s, x, o)
	}
	return o.Finish(s, p.fast(s, s.To(x, compute), tensor.Tensor{}, nil))
}

func (f *mlp) decode(s *tensor.Scope, x tensor.Tensor, compute tensor.DType, o tensor.Epilogue) tensor.Tensor {
	act, applied := ungated[f.act]
	y := f.up.decode(s, x, compute, tensor.Epilogue{Act: act, DType: compute})
	if !applied && (f.up.packed == nil || !f.up.packed.Gated) {
		y = f.act.apply(s, y)
	}
	return f.down.decode(s, y, compute, o)
}

// decode returns queries, keys and values side by side, float32 [B, T, (N + 2·KV)·D], queries and keys rotated.
func (a *attention) decode(s *tensor.Scope, x tensor.Tensor, r rotation, compute tensor.DType) tensor.Tensor {
	y := a.normed(s, a.qkv.decode(s, x, compute, tensor.Epilogue{DType: tensor.Float32}))
	switch {
	case !r.cos.Defined():
	case r.cos.Size(-1) < a.dim:
		y = s.View(a.rotated(s, s.Contiguous(y), r), y.Shape()...)
	default:
		y = s.Contiguous(y)
		s.Rotate_(y, r.cos, r.sin, a.heads+a.kvHeads, a.dim)
	}
	return y
}

// checkPrompts refuses prompts that are empty or leave no room for new tokens.
func (m *Model) checkPrompts(prompts [][]int32, room int) error {
	for i, p := range prompts {
		if len(p) == 0 {
			return fmt.Errorf("lm: prompt %d is empty", i)
		}
		if len(p)+room > m.Config.Context {
			return fmt.Errorf("lm: prompt %d has %d tokens, which leaves no room for %d new ones in the context of %d", i,
				len(p), room, m.Config.Context)
		}
		if err := m.CheckTokens(p); err != nil {
			return fmt.Errorf("prompt %d: %w", i, err)
		}
	}
	return nil
}

// prefill runs the model over the prompts of in, padded rows, stores their keys and values at prefixes of the caches, and
// returns the hidden states [n, H] after each prompt.
func (m *Model) prefill(s *tensor.Scope, caches []*tensor.DecodeCache, in Input, prefixes []int32,
	prompts [][]int32) tensor.Tensor {
	last := numeric.Tabulate(len(prompts), func(i int) int64 {
		return int64(i)*in.IDs.Size(1) + int64(len(prompts[i])) - 1
	})
	hidden := m.decode(s, in, m.prefillAttention(s, caches, in, prefixes, prompts))
	return s.IndexSelect(s.Reshape(hidden, -1, hidden.Size(-1)), 0, s.FromInt64(last, int64(len(last))))
}

// decodeStep feeds a token of each row, behind those in the caches, and returns the hidden states [len(ids), H]. There may
// be more ids and positions than rows: padding.
func (m *Model) decodeStep(s *tensor.Scope, caches []*tensor.DecodeCache, ids, positions []int64,
	rows tensor.Rows) tensor.Tensor {
	n, full := int64(len(rows.Slot)), int64(len(ids))
	in := Input{IDs: s.FromInt64(ids, 1, full), Positions: s.FromInt64(positions, 1, full)}
	rows = rows.On(s, caches[0])
	hidden := m.decode(s, in, func(layer int, qkv tensor.Tensor) tensor.Tensor {
		y := caches[layer].Attend(s, qkv, rows)
		if full > n {
			y = s.Cat(0, y, s.Zeros(y.DType(), full-n, y.Size(1)))
		}
		return s.View(y, 1, full, -1)
	})
	return s.View(s.Contiguous(hidden), full, -1)
}

func newRows(n int) tensor.Rows {
	return tensor.Rows{Slot: make([]int32, n), SuffixLen: make([]int32, n), Prefix: make([]int32, n),
		PrefixLen: make([]int32, n)}
}

// The decoding kernel needs head dimensions and rooms that are multiples of lanes; the matrix unit needs multiples of
// tileLanes.
const lanes, tileLanes = 16, 32

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// cacheShape returns the stored width and length of a layer's keys and values, for prompts of up to prompt tokens and
// samples of up to own tokens.
func (m *Model) cacheShape(prompt, own int) tensor.DecodeCache {
	c := m.Config
	shape := tensor.DecodeCache{Heads: c.Heads, KVHeads: c.KVHeads, Head: c.HeadDim(), Scale: float32(m.scale()),
		Cap: float32(c.AttnCap), DType: m.Compute, Tiles: c.AttnCap == 0 && tensor.MatrixUnit() && m.packed() &&
			m.Compute == tensor.BFloat16, SuffixRoom: roundUp(own, lanes)}
	to := lanes
	if shape.Tiles {
		to = tileLanes
	}
	shape.Dim, shape.PrefixRoom = roundUp(c.HeadDim(), to), roundUp(prompt, to)
	return shape
}

// slotBytes is the memory of one sample's own keys and values in all layers.
func (m *Model) slotBytes(shape tensor.DecodeCache) int64 {
	return int64(m.Config.Layers) * 2 * int64(shape.KVHeads*shape.Dim) * int64(shape.SuffixRoom) * int64(shape.DType.Size())
}

// newCache makes one layer's cache.
func newCache(s *tensor.Scope, c tensor.DecodeCache, prefixes, slots int) *tensor.DecodeCache {
	room := func(shape ...int64) tensor.Tensor {
		if c.Dim > c.Head {
			return s.Zeros(c.DType, shape...) // products read the padding of heads
		}
		return s.Empty(c.DType, shape...)
	}
	n, d, shared, own := int64(c.KVHeads), int64(c.Dim), int64(c.PrefixRoom), int64(c.SuffixRoom)
	c.PrefixK, c.PrefixV = room(int64(prefixes), n, d, shared), room(int64(prefixes), n, shared, d)
	c.SuffixK, c.SuffixV = room(int64(slots), n, d, own), room(int64(slots), n, own, d)
	return &c
}

// prefillAttention is the causal attention within the prompts of in, padded rows of the given lengths. It stores their
// keys and values at the given prefixes of the caches.
func (m *Model) prefillAttention(s *tensor.Scope, caches []*tensor.DecodeCache, in Input, prefixes []int32,
	prompts [][]int32) func(layer int, qkv tensor.Tensor) tensor.Tensor {
	if caches[0].Tiles {
		lengths := numeric.Map(prompts, func(p []int32) int32 { return int32(len(p)) })
		return func(layer int, qkv tensor.Tensor) tensor.Tensor {
			return caches[layer].Prefill(s, qkv, prefixes, lengths)
		}
	}
	width, d := in.IDs.Size(1), int64(m.Config.HeadDim())
	index := s.FromInt64(numeric.Convert[int64](prefixes), int64(len(prefixes)))
	p := m.masked(s, m.scoreMask(s, in, width))
	return func(layer int, qkv tensor.Tensor) tensor.Tensor {
		c, a := caches[layer], &m.blocks[layer].attn
		q, k, v := a.split(s, s.To(qkv, m.Compute), rotation{})
		s.IndexCopy_(s.Narrow(s.Narrow(c.PrefixK, 3, 0, width), 2, 0, d), 0, index, s.Transpose(k, 2, 3))
		s.IndexCopy_(s.Narrow(s.Narrow(c.PrefixV, 2, 0, width), 3, 0, d), 0, index, v)
		return a.fast(s, q, k, v, p)
	}
}
