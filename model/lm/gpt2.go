package lm

import (
	"fmt"
	"strings"

	"popri/internal/hfconfig"
	"popri/internal/quote"
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
	if err := hfconfig.Decode(raw, &f, "n_ctx"); err != nil {
		return Config{}, err
	}
	if f.Act != "gelu_new" && f.Act != "gelu" && f.Act != "gelu_pytorch_tanh" {
		return Config{}, quote.Errorf("activation_function: %q is not supported (gelu_new, gelu_pytorch_tanh, gelu)",
			f.Act)
	}
	c := Config{Vocab: f.Vocab, Context: f.Context, Hidden: f.Hidden, Layers: f.Layers, Heads: f.Heads,
		Inner:   4 * f.Hidden,
		NormEps: f.Eps, Gelu: f.Act, TiedHead: f.Tied == nil || *f.Tied, EOS: f.EOS, ScaleAttn: f.Scale == nil ||
			*f.Scale}
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

func gpt2Build(m *Model, b *builder) {
	c := m.Config
	h, in := int64(c.Hidden), int64(c.Inner)
	m.tok = b.take("transformer.wte.weight", int64(c.Vocab), h)
	m.pos = b.take("transformer.wpe.weight", int64(c.Context), h)
	for i := range c.Layers {
		p := fmt.Sprintf("transformer.h.%d.", i)
		m.blocks = append(m.blocks, block{
			attnNorm: b.layerNorm(p+"ln_1", h),
			attn: &attention{qkv: b.conv1D(p+"attn.c_attn", h, 3*h), out: b.conv1D(p+"attn.c_proj", h, h),
				heads: int64(c.Heads), kvHeads: int64(c.Heads), dim: int64(c.HeadDim())},
			mlpNorm: b.layerNorm(p+"ln_2", h),
			mlp: &geluMLP{up: b.conv1D(p+"mlp.c_fc", h, in), down: b.conv1D(p+"mlp.c_proj", in, h),
				act: c.activation()},
		})
	}
	m.norm = b.layerNorm("transformer.ln_f", h)
}
