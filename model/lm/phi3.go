package lm

import "popri/internal/quote"

// Phi-3 and Phi-4-mini (Abdin et al. 2024; Microsoft 2025) are LLaMA with one projection onto queries, keys and values
// and one onto both inner layers of the MLP. A part of a head's dimensions may rotate, and the context may be stretched
// ("longrope"), in which case it is cut to the one before.
var phi3 = architecture{config: phi3Config, fields: phi3Fields, build: phi3Build, rename: llamaName,
	residual: llamaResidual}

func phi3Config(raw []byte) (Config, error) {
	f := llamaLike{Vocab: 32064, Context: 4096, Hidden: 3072, Layers: 32, Heads: 32, Inner: 8192, Eps: 1e-5,
		Act: "silu", Original: 4096, partial: true, windowed: true, rotaryFields: rotaryFields{Theta: 10000},
		harmless: []string{"full_attn_mod", "interpolate_factor"}} // as the published folders have them, both 1
	c, err := f.config(raw)
	if err != nil {
		return c, err
	}
	if s := c.Rotary.Scaling; s != "" && s != "longrope" {
		return c, quote.Errorf("rope_scaling: rope_type: %q is not supported for phi3 (longrope)", s)
	}
	return c, nil
}

func phi3Fields(c Config) map[string]any {
	f := llamaFields("Phi3ForCausalLM")(c)
	f["original_max_position_embeddings"] = c.Context
	if c.Rotary.OriginalContext != 0 {
		f["original_max_position_embeddings"] = c.Rotary.OriginalContext
	}
	if c.Rotary.Partial != 0 {
		f["partial_rotary_factor"] = c.Rotary.Partial
	}
	return f
}

func phi3Build(b *builder) {
	h, in, heads, kv, d := b.hidden, int64(b.Inner), int64(b.Heads), int64(b.KVHeads), int64(b.Dim)
	b.decoder(func(_ int, p string) block {
		gateUp := b.linear(p+"mlp.gate_up_proj", h, 2*in, false)
		gateUp.gates = true
		return block{formula: llamaBlock,
			attnNorm: b.rmsNorm(p+"input_layernorm", h),
			attn: attention{qkv: b.linear(p+"self_attn.qkv_proj", h, (heads+2*kv)*d, false),
				out: b.linear(p+"self_attn.o_proj", heads*d, h, false), heads: heads, kvHeads: kv, dim: d},
			mlpNorm: b.rmsNorm(p+"post_attention_layernorm", h),
			mlp:     mlp{up: gateUp, down: b.linear(p+"mlp.down_proj", in, h, false), act: swiGLU},
		}
	})
}
