package lm

import (
	"strings"

	"popri/internal/hfconfig"
	"popri/model/tensor"
)

// GPT-2 (Radford et al. 2019): learned positions, layer norm before attention and MLP, one fused query-key-value
// projection, GELU. Its projections are stored [in, out].
var gpt2 = architecture{config: gpt2Config, fields: gpt2Fields, build: gpt2Build, rename: gpt2Name,
	residual: []string{"c_proj"}}

func gpt2Config(raw []byte) (Config, error) {
	f := struct {
		Vocab   int      `json:"vocab_size"`
		Context int      `json:"n_positions"`
		Hidden  int      `json:"n_embd"`
		Layers  int      `json:"n_layer"`
		Heads   int      `json:"n_head"`
		Inner   *int     `json:"n_inner"`
		Eps     float64  `json:"layer_norm_epsilon"`
		Act     string   `json:"activation_function"`
		Tied    *bool    `json:"tie_word_embeddings"`
		EOS     tokenIDs `json:"eos_token_id"`
		Scale   *bool    `json:"scale_attn_weights"`
	}{Vocab: 50257, Context: 1024, Hidden: 768, Layers: 12, Heads: 12, Eps: 1e-5, Act: "gelu_new"}
	if err := hfconfig.Decode(raw, &f, "n_ctx", "n_special", "predict_special_tokens"); err != nil {
		return Config{}, err
	}
	if err := checkActivation("activation_function", f.Act); err != nil {
		return Config{}, err
	}
	c := Config{Vocab: f.Vocab, Context: f.Context, Hidden: f.Hidden, Layers: f.Layers, Heads: f.Heads, Inner: 4 * f.Hidden,
		NormEps: f.Eps, Gelu: f.Act, TiedHead: f.Tied == nil || *f.Tied, EOS: f.EOS, ScaleAttn: f.Scale == nil || *f.Scale}
	if f.Inner != nil {
		c.Inner = *f.Inner
	}
	return c, nil
}

func gpt2Fields(c Config) map[string]any {
	return map[string]any{
		"architectures": []string{"GPT2LMHeadModel"},
		"n_positions":   c.Context, "n_embd": c.Hidden, "n_layer": c.Layers, "n_head": c.Heads, "n_inner": c.Inner,
		"layer_norm_epsilon": c.NormEps, "activation_function": c.Gelu, "scale_attn_weights": c.ScaleAttn,
		"attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
	}
}

func gpt2Name(name string) string {
	if strings.HasSuffix(name, ".attn.bias") || strings.HasSuffix(name, ".attn.masked_bias") {
		return "" // buffers of the causal mask in old checkpoints
	}
	if strings.HasPrefix(name, "transformer.") || name == headName {
		return name
	}
	return "transformer." + name
}

func gpt2Build(b *builder) {
	h, in := b.hidden, int64(b.Inner)
	b.m.embedding = embedding{tokens: b.take("transformer.wte.weight", int64(b.Vocab), h),
		positions: b.take("transformer.wpe.weight", int64(b.Context), h)}
	b.layers("transformer.h.", func(_ int, p string) block {
		return block{formula: gpt2Block,
			attnNorm: b.layerNorm(p + "ln_1"),
			attn: attention{qkv: b.conv1D(p+"attn.c_attn", h, 3*h), out: b.conv1D(p+"attn.c_proj", h, h),
				heads: int64(b.Heads), kvHeads: int64(b.Heads), dim: int64(b.HeadDim())},
			mlpNorm: b.layerNorm(p + "ln_2"),
			mlp: mlp{up: b.conv1D(p+"mlp.c_fc", h, in), down: b.conv1D(p+"mlp.c_proj", in, h),
				act: b.activation()},
		}
	})
	b.m.norm = b.layerNorm("transformer.ln_f")
}

// gpt2Block is
//
//	h = x + W_o·attention(W_q·n, W_k·n, W_v·n)      n = LayerNorm(x)
//	y = h + W_down·gelu(W_up·LayerNorm(h))
func gpt2Block(p *plain, b *block, x tensor.Tensor) tensor.Tensor {
	q, k, v := p.qkv(b, p.norm(b.attnNorm, x))
	x = p.Add(x, p.dropout(dropAttention, p.project(b.attn.out, p.attend(b, q, k, v))))
	h := b.mlp.act.apply(p.Scope, p.project(b.mlp.up, p.norm(b.mlpNorm, x)))
	return p.Add(x, p.dropout(dropMLP, p.project(b.mlp.down, h)))
}
