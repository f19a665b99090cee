package lm

import (
	"cmp"
	"fmt"
	"strings"

	"popri/internal/hfconfig"
	"popri/model/tensor"
)

// GPT-NeoX (Black et al. 2022; Pythia, Biderman et al. 2023): rotary positions of a part of each head, layer norms,
// biases, GELU, and attention and MLP of the same input unless use_parallel_residual is false. query_key_value gives
// each head's query, key and value side by side.
var gptNeoX = architecture{config: gptNeoXConfig, fields: gptNeoXFields, build: gptNeoXBuild, rename: gptNeoXName,
	residual: []string{"attention.dense", "dense_4h_to_h"}, head: "embed_out.weight"}

func gptNeoXConfig(raw []byte) (Config, error) {
	f := struct {
		Vocab    int      `json:"vocab_size"`
		Context  int      `json:"max_position_embeddings"`
		Hidden   int      `json:"hidden_size"`
		Layers   int      `json:"num_hidden_layers"`
		Heads    int      `json:"num_attention_heads"`
		Inner    int      `json:"intermediate_size"`
		Eps      float64  `json:"layer_norm_eps"`
		Act      string   `json:"hidden_act"`
		Tied     bool     `json:"tie_word_embeddings"`
		EOS      tokenIDs `json:"eos_token_id"`
		Parallel bool     `json:"use_parallel_residual"`
		Bias     bool     `json:"attention_bias"`
		Base     float64  `json:"rotary_emb_base"`
		Part     float64  `json:"rotary_pct"`
		rotaryFields
	}{Vocab: 50432, Context: 2048, Hidden: 6144, Layers: 44, Heads: 64, Inner: 24576, Eps: 1e-5, Act: "gelu",
		Parallel: true, Bias: true, Base: 10000, Part: 0.25}
	if err := hfconfig.Decode(raw, &f, "hidden_dropout"); err != nil {
		return Config{}, err
	}
	// Some versions of transformers write rope_theta and partial_rotary_factor, too, and none reads them.
	f.Theta, f.Partial = cmp.Or(f.Theta, f.Base), cmp.Or(f.Partial, f.Part)
	switch {
	case f.Theta != f.Base:
		return Config{}, fmt.Errorf("rope_theta: %g is not supported besides a rotary_emb_base of %g", f.Theta, f.Base)
	case f.Partial != f.Part:
		return Config{}, fmt.Errorf("partial_rotary_factor: %g is not supported besides a rotary_pct of %g", f.Partial, f.Part)
	case f.Part == 0:
		return Config{}, fmt.Errorf("rotary_pct: 0 is not supported")
	}
	if err := checkActivation("hidden_act", f.Act); err != nil {
		return Config{}, err
	}
	rotary, err := f.rotary(true, 0, f.Context)
	if err == nil && rotary.Scaling == "longrope" { // longer contexts have other frequencies
		f.Context = min(f.Context, rotary.OriginalContext)
	}
	return Config{Vocab: f.Vocab, Context: f.Context, Hidden: f.Hidden, Layers: f.Layers, Heads: f.Heads,
		Inner: f.Inner, NormEps: f.Eps, Gelu: f.Act, TiedHead: f.Tied, EOS: f.EOS, ScaleAttn: true, Rotary: rotary,
		QKVBias: f.Bias, OutBias: f.Bias, MLPBias: true, Parallel: f.Parallel}, err
}

func gptNeoXFields(c Config) map[string]any {
	theta, scaling := c.Rotary.fields()
	return map[string]any{
		"architectures":           []string{"GPTNeoXForCausalLM"},
		"max_position_embeddings": c.Context, "hidden_size": c.Hidden, "num_hidden_layers": c.Layers,
		"num_attention_heads": c.Heads, "intermediate_size": c.Inner, "layer_norm_eps": c.NormEps, "hidden_act": c.Gelu,
		"use_parallel_residual": c.Parallel, "attention_bias": c.QKVBias, "rotary_emb_base": theta,
		"rotary_pct": cmp.Or(c.Rotary.Partial, 1), "rope_scaling": scaling, "attention_dropout": 0, "hidden_dropout": 0,
	}
}

func gptNeoXName(name string) string {
	for _, buffer := range []string{".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"} {
		if strings.HasSuffix(name, buffer) {
			return "" // of old checkpoints
		}
	}
	switch {
	case name == "embed_out.weight":
		return headName
	case name == headName, strings.HasPrefix(name, "gpt_neox."):
		return name
	}
	return "gpt_neox." + name
}

func gptNeoXBuild(b *builder) {
	h, in := b.hidden, int64(b.Inner)
	b.m.embedding.tokens = b.take("gpt_neox.embed_in.weight", int64(b.Vocab), h)
	b.layers("gpt_neox.layers.", func(_ int, p string) block {
		x := block{formula: llamaBlock, parallel: b.Parallel,
			attnNorm: b.layerNorm(p + "input_layernorm"),
			attn: attention{qkv: b.linear(p+"attention.query_key_value", h, 3*h, b.QKVBias), interleaved: true,
				out:   b.linear(p+"attention.dense", h, h, b.OutBias),
				heads: int64(b.Heads), kvHeads: int64(b.Heads), dim: int64(b.HeadDim())},
			mlpNorm: b.layerNorm(p + "post_attention_layernorm"),
			mlp: mlp{up: b.linear(p+"mlp.dense_h_to_4h", h, in, true),
				down: b.linear(p+"mlp.dense_4h_to_h", in, h, true), act: b.activation()},
		}
		if b.Parallel {
			x.formula = parallelBlock
		}
		return x
	})
	b.m.norm = b.layerNorm("gpt_neox.final_layer_norm")
}

// parallelBlock is
//
//	y = x + llamaAttention(LayerNorm(x)) + W_down·gelu(W_up·LayerNorm'(x))
func parallelBlock(p *plain, b *block, x tensor.Tensor) tensor.Tensor {
	y := p.Add(x, p.dropout(dropAttention, llamaAttention(p, b, p.norm(b.attnNorm, x))))
	h := b.mlp.act.apply(p.Scope, p.project(b.mlp.up, p.norm(b.mlpNorm, x)))
	return p.Add(y, p.dropout(dropMLP, p.project(b.mlp.down, h)))
}
