package lm

import (
	"maps"
	"slices"
	"strings"

	"popri/internal/quote"
	"popri/model/tensor"
)

// A block is one layer of a model. Its formula says what it computes, and runs everywhere. Where this machine has
// kernels, fast.go computes the same from the parts.
type block struct {
	formula           formula
	attn              attention
	mlp               mlp
	attnNorm, mlpNorm norm // of the inputs of attention and MLP; nil for none
	attnOut, mlpOut   norm // of the outputs of attention and MLP before they join the residual stream; nil for none
	after             bool // attnNorm and mlpNorm are of the sums with the residual stream, not of the inputs
	parallel          bool // attention and MLP have the same input
}

// norms are the norms of the inputs of attention and MLP, and of the sums with the residual stream.
func (b *block) norms() (before, after [2]norm) {
	before = [2]norm{b.attnNorm, b.mlpNorm}
	if b.after {
		before, after = after, before
	}
	return before, after
}

// A formula is the block of an architecture. It maps the residual stream x [B, T, H] to that after the block.
type formula func(p *plain, b *block, x tensor.Tensor) tensor.Tensor

// attention is self-attention of heads query heads that share kvHeads heads of keys and values.
type attention struct {
	qkv                 projection // queries, keys and values of all heads side by side
	out                 projection
	heads, kvHeads, dim int64
	qNorm, kNorm        norm // of queries and keys before they are rotated, or nil
	allHeads            bool // these norms are of all heads at once, not of each
	unturned            bool // positions do not rotate queries and keys
	local               bool // they rotate by the frequencies of local layers
	interleaved         bool // qkv gives each head's query, key and value side by side
}

// sideBySide returns queries, keys and values of all heads side by side of what qkv gives.
func (a *attention) sideBySide(s *tensor.Scope, qkv tensor.Tensor) tensor.Tensor {
	if !a.interleaved {
		return qkv
	}
	shape := qkv.Shape()
	each := s.View(s.Contiguous(qkv), shape[0], shape[1], a.heads, 3, a.dim)
	return s.Reshape(s.Transpose(each, 2, 3), shape...)
}

// mlp is down(act(up(x))). For a gated activation, up has gates and inputs side by side.
type mlp struct {
	up, down projection
	act      activation
}

// projections returns the block's projections.
func (b *block) projections() []*projection {
	return []*projection{&b.attn.qkv, &b.attn.out, &b.mlp.up, &b.mlp.down}
}

// activation is the activation of an MLP.
type activation int

const (
	gelu     activation = iota // x·Φ(x)
	geluTanh                   // GELU in its tanh form
	swiGLU                     // silu(gate)·x (Shazeer 2020)
	geGLU                      // geluTanh(gate)·x
	relu                       // max(x, 0)
)

// activations are for MLPs without gates, by their names in config.json.
var activations = map[string]activation{"gelu": gelu, "gelu_fast": geluTanh, "gelu_new": geluTanh,
	"gelu_pytorch_tanh": geluTanh, "relu": relu}

// activation is for an MLP without gates.
func (c *Config) activation() activation { return activations[c.Gelu] }

// checkActivation refuses an activation that is not known, in a field of config.json.
func checkActivation(field, name string) error {
	if _, ok := activations[name]; !ok {
		return quote.Errorf("%s: %q is not supported (%s)", field, name,
			strings.Join(slices.Sorted(maps.Keys(activations)), ", "))
	}
	return nil
}

// ungated are the activations without gates.
var ungated = map[activation]tensor.Activation{gelu: tensor.ActGelu, geluTanh: tensor.ActGeluTanh, relu: tensor.ActRelu}

func (a activation) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	if act, ok := ungated[a]; ok {
		return s.Activate(act, x)
	}
	if a == swiGLU {
		return s.SwiGLU(s.Contiguous(x))
	}
	n := x.Size(-1) / 2
	return s.Mul(s.Activate(tensor.ActGeluTanh, s.Narrow(x, -1, 0, n)), s.Narrow(x, -1, n, n))
}

// plain computes the formula of a block with one operation for each step: the reference of fast.go.
type plain struct {
	*tensor.Scope
	pass
	// decoded, if not nil, replaces the attention: from queries, keys and values side by side, float32 [B, T,
	// (N + 2·KV)·D], to [B, T, N·D].
	decoded func(qkv tensor.Tensor) tensor.Tensor
}

// norm applies n, or nothing where it is nil.
func (p *plain) norm(n norm, x tensor.Tensor) tensor.Tensor { return normed(p.Scope, n, x) }

// project is W·x + b of a projection, with the change of the adapter.
func (p *plain) project(w projection, x tensor.Tensor) tensor.Tensor {
	return w.apply(p.Scope, x, p.adapter, (*matrix).plain)
}

// dropout is applied to the output of attention or MLP.
func (p *plain) dropout(site int, x tensor.Tensor) tensor.Tensor {
	return p.drop.apply(p.Scope, x, site)
}

// qkv returns the queries [B, T, N, D], and the keys and values [B, T, KV, D].
func (p *plain) qkv(b *block, x tensor.Tensor) (q, k, v tensor.Tensor) {
	a := b.attn
	all := a.sideBySide(p.Scope, p.project(a.qkv, x))
	shape := all.Shape()
	all = p.View(p.Contiguous(all), shape[0], shape[1], -1, a.dim)
	return p.Narrow(all, 2, 0, a.heads), p.Narrow(all, 2, a.heads, a.kvHeads), p.Narrow(all, 2, a.heads+a.kvHeads, a.kvHeads)
}

// rotate rotates heads [B, T, heads, D] by the positions of their tokens.
func (p *plain) rotate(b *block, x tensor.Tensor) tensor.Tensor {
	return p.rotations.of(&b.attn).apply(p.Scope, x)
}

// attend returns softmax(scale·q·kᵀ + mask)·v of all heads side by side, [B, T, N·D].
func (p *plain) attend(b *block, q, k, v tensor.Tensor) tensor.Tensor {
	if p.decoded != nil {
		shape := q.Shape()
		qkv := p.Reshape(p.Cat(2, q, k, v), shape[0], shape[1], -1)
		return p.To(p.decoded(p.To(qkv, tensor.Float32)), p.m.Compute)
	}
	return b.attn.attend(p.Scope, p.Transpose(q, 1, 2), p.Transpose(k, 1, 2), p.Transpose(v, 1, 2), p.pass)
}

// attend is softmax(scale·q·kᵀ + mask)·v, the heads' outputs side by side [B, T, N·D], of queries [B, N, T, D] and of at
// least as many keys and values. The query heads that share keys are rows of one product with them.
func (a *attention) attend(s *tensor.Scope, q, k, v tensor.Tensor, p pass) tensor.Tensor {
	defer tensor.Attention.Enter()()
	shape := q.Shape()
	b, t, seen := shape[0], shape[2], k.Size(2)
	if a.heads > a.kvHeads {
		q = s.Reshape(q, b, a.kvHeads, -1, a.dim)
	}
	scores, scale := s.MatMul(q, s.Transpose(k, 2, 3)), p.m.scale()
	if limit := p.m.Config.AttnCap; limit != 0 {
		scores, scale = s.Capped(s.MulScalar(scores, scale), limit), 1
	}
	weights := s.MaskedSoftmax(s.View(scores, b, a.heads, t, seen), p.mask, scale)
	weights = p.drop.apply(s, weights, dropWeights)
	y := s.MatMul(s.View(weights, b, a.kvHeads, -1, seen), v)
	y = s.Transpose(s.View(y, b, a.heads, t, a.dim), 1, 2)
	return s.Reshape(y, b, t, a.heads*a.dim)
}
