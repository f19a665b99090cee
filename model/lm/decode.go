package lm

import "popri/model/tensor"

// decode runs the decoder over the tokens of in without gradients or an adapter, for sampling, and returns the final
// norm's output [B, T, H]. It is [Model.Hidden] with every operation in its fastest form, which may round differently.
// The argument attend computes the blocks' attention: from queries, keys and values side by side, float32 [B, T, (N +
// 2·KV)·D], rotated by their positions, to [B, T, N·D].
func (m *Model) decode(s *tensor.Scope, in Input,
	attend func(layer int, qkv tensor.Tensor) tensor.Tensor) tensor.Tensor {
	x := m.embed(s, in)
	r := m.rotations(s, in, tensor.Float32)
	if m.packed() {
		x = s.To(x, tensor.Float32) // products round their inputs; other operations need not
	}
	for i, b := range m.blocks {
		x = s.Nest(func() tensor.Tensor {
			qkv := s.Contiguous(b.attn.fused(s, applied(b.attnNorm)(s, x), r.of(b.attn), m.Compute))
			x := onto(s, b.attnOut, x, func(o tensor.Epilogue) tensor.Tensor {
				return finish(s, b.attn.out, attend(i, qkv), m.Compute, o)
			})
			return onto(s, b.mlpOut, x, func(o tensor.Epilogue) tensor.Tensor {
				return b.mlp.decode(s, applied(b.mlpNorm)(s, x), o, m.Compute)
			})
		})
	}
	return m.norm.apply(s, x)
}

// onto is the residual stream x plus what f computes, after a norm of it unless that is nil.
func onto(s *tensor.Scope, n norm, x tensor.Tensor, f func(o tensor.Epilogue) tensor.Tensor) tensor.Tensor {
	if n == nil {
		return f(tensor.Epilogue{Residual: x, DType: x.DType()})
	}
	return s.Add(x, n.apply(s, f(tensor.Epilogue{DType: x.DType()})))
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
		Cap: float32(c.AttnCap), DType: m.Compute,
		Tiles: c.AttnCap == 0 && tensor.MatrixUnit() && m.packed() &&
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
	return int64(m.Config.Layers) * 2 * int64(shape.KVHeads*shape.Dim) * int64(shape.SuffixRoom) * int64(
		shape.DType.Size())
}

// newCache makes one layer's cache.
func newCache(s *tensor.Scope, c tensor.DecodeCache, places, slots int) *tensor.DecodeCache {
	room := func(shape ...int64) tensor.Tensor {
		if c.Dim > c.Head {
			return s.Zeros(c.DType, shape...) // products read the padding of heads
		}
		return s.Empty(c.DType, shape...)
	}
	n, d, shared, own := int64(c.KVHeads), int64(c.Dim), int64(c.PrefixRoom), int64(c.SuffixRoom)
	c.PrefixK, c.PrefixV = room(int64(places), n, d, shared), room(int64(places), n, shared, d)
	c.SuffixK, c.SuffixV = room(int64(slots), n, d, own), room(int64(slots), n, own, d)
	return &c
}

// prefillAttention is the causal attention within the prompts of in, padded rows of the given lengths. It stores their
// keys and values in the given places of the caches.
func (m *Model) prefillAttention(s *tensor.Scope, caches []*tensor.DecodeCache, in Input, places []int32,
	prompts [][]int32) func(layer int, qkv tensor.Tensor) tensor.Tensor {
	if caches[0].Tiles {
		lengths := make([]int32, len(prompts))
		for i, p := range prompts {
			lengths[i] = int32(len(p))
		}
		return func(layer int, qkv tensor.Tensor) tensor.Tensor {
			return caches[layer].Prefill(s, qkv, places, lengths)
		}
	}
	width, d := in.IDs.Size(1), int64(m.Config.HeadDim())
	wide := make([]int64, len(places))
	for i, p := range places {
		wide[i] = int64(p)
	}
	at := s.FromInt64(wide, int64(len(places)))
	inputs := m.masked(s, m.scoreMask(s, in, width))
	return func(layer int, qkv tensor.Tensor) tensor.Tensor {
		c, a := caches[layer], m.blocks[layer].attn
		q, k, v := a.split(s, s.To(qkv, m.Compute), rotation{})
		s.IndexCopy_(s.Narrow(s.Narrow(c.PrefixK, 3, 0, width), 2, 0, d), 0, at, s.Transpose(k, 2, 3))
		s.IndexCopy_(s.Narrow(s.Narrow(c.PrefixV, 2, 0, width), 3, 0, d), 0, at, v)
		return a.attend(s, q, k, v, inputs)
	}
}
