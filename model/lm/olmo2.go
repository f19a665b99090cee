package lm

import "fmt"

// OLMo 2 (OLMo Team 2025) has RMS norms of the outputs of attention and MLP instead of their inputs, and of all queries
// and all keys of a token before positions turn them.
var olmo2 = architecture{config: olmo2Config, fields: llamaFields("Olmo2ForCausalLM"), build: olmo2Build,
	rename: llamaName, residual: llamaResidual}

func olmo2Config(raw []byte) (Config, error) {
	f := llamaLike{Vocab: 50304, Context: 2048, Hidden: 4096, Layers: 32, Heads: 32, Inner: 11008, Eps: 1e-5,
		Act: "silu", rotaryFields: rotaryFields{Theta: 10000}}
	return f.config(raw, false)
}

func olmo2Build(m *Model, b *builder) {
	m.tok = b.take("model.embed_tokens.weight", int64(m.Config.Vocab), m.hidden())
	for i := range m.Config.Layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		x := b.gatedBlock(p)
		x.attn.qNorm = b.rmsNorm(p+"self_attn.q_norm", x.attn.heads*x.attn.dim)
		x.attn.kNorm = b.rmsNorm(p+"self_attn.k_norm", x.attn.kvHeads*x.attn.dim)
		x.attn.together = true
		x.attnOut = b.rmsNorm(p+"post_attention_layernorm", m.hidden())
		x.mlpOut = b.rmsNorm(p+"post_feedforward_layernorm", m.hidden())
		m.blocks = append(m.blocks, x)
	}
	m.norm = b.rmsNorm("model.norm", m.hidden())
}
