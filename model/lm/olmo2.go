package lm

import "popri/model/tensor"

// OLMo 2 (OLMo Team 2025) has RMS norms of the outputs of attention and MLP instead of their inputs, and of all queries
// and all keys of a token before positions rotate them.
var olmo2 = architecture{config: llamaLike{Vocab: 50304, Context: 2048, Hidden: 4096, Layers: 32, Heads: 32, Inner: 11008,
	Eps: 1e-5, Act: "silu", rotaryFields: rotaryFields{Theta: 10000}}.config, fields: llamaFields("Olmo2ForCausalLM"),
	build: olmo2Build, rename: llamaName, residual: llamaResidual}

func olmo2Build(b *builder) {
	b.decoder(func(_ int, p string) block {
		x := b.gatedBlock(p)
		x.formula, x.attn.allHeads = olmo2Block, true
		x.attn.qNorm = b.rmsNorm(p+"self_attn.q_norm", x.attn.heads*x.attn.dim)
		x.attn.kNorm = b.rmsNorm(p+"self_attn.k_norm", x.attn.kvHeads*x.attn.dim)
		x.attnOut = b.rmsNorm(p+"post_attention_layernorm", b.hidden)
		x.mlpOut = b.rmsNorm(p+"post_feedforward_layernorm", b.hidden)
		return x
	})
}

// olmo2Block is
//
//	h = x + RMSNorm(W_o·attention(R·RMSNorm(W_q·x), R·RMSNorm(W_k·x), W_v·x))
//	y = h + RMSNorm(gatedMLP(h))
//
// where the norms of queries and keys are of all heads of a token at once.
func olmo2Block(p *plain, b *block, x tensor.Tensor) tensor.Tensor {
	norm := func(n norm, heads tensor.Tensor) tensor.Tensor {
		shape := heads.Shape()
		return p.View(p.norm(n, p.Reshape(heads, shape[0], shape[1], -1)), shape...)
	}
	q, k, v := p.qkv(b, x)
	q, k = p.rotate(b, norm(b.attn.qNorm, q)), p.rotate(b, norm(b.attn.kNorm, k))
	y := p.norm(b.attnOut, p.project(b.attn.out, p.attend(b, q, k, v)))
	x = p.Add(x, p.dropout(dropAttention, y))
	return p.Add(x, p.dropout(dropMLP, p.norm(b.mlpOut, gatedMLP(p, b, x))))
}
