package lm

import (
	"fmt"
	"strings"

	"popri/internal/hfconfig"
	"popri/internal/quote"
	"popri/model/tensor"
)

// LLaMA (Touvron et al. 2023; Llama 3, Grattafiori et al. 2024): rotary positions, RMS norm before attention and MLP,
// groups of query heads that share keys and values, SwiGLU, no biases unless the config says so.
var llama = architecture{config: llamaLike{Vocab: 32000, Context: 2048, Hidden: 4096, Layers: 32, Heads: 32, Inner: 11008,
	Eps: 1e-6, Act: "silu", rotaryFields: rotaryFields{Theta: 10000}}.config, fields: llamaFields("LlamaForCausalLM"),
	build: llamaBuild, rename: llamaName, residual: llamaResidual}

var llamaResidual = []string{"o_proj", "down_proj"}

// llamaLike has the common fields of the config.json of LLaMA and of its descendants.
type llamaLike struct {
	Vocab   int      `json:"vocab_size"`
	Context int      `json:"max_position_embeddings"`
	Hidden  int      `json:"hidden_size"`
	Layers  int      `json:"num_hidden_layers"`
	Heads   int      `json:"num_attention_heads"`
	KVHeads int      `json:"num_key_value_heads"`
	Dim     int      `json:"head_dim"`
	Inner   int      `json:"intermediate_size"`
	Eps     float64  `json:"rms_norm_eps"`
	Act     string   `json:"hidden_act"`
	Tied    bool     `json:"tie_word_embeddings"`
	EOS     tokenIDs `json:"eos_token_id"`
	rotaryFields
	// Attention over the last Window tokens only. Up to a length of Window, it is full attention.
	Window    *int  `json:"sliding_window"`
	UseWindow *bool `json:"use_sliding_window"`
	// Fields that only LLaMA's config.json has.
	AttnBias    bool     `json:"attention_bias"`
	MLPBias     bool     `json:"mlp_bias"`
	Parallelism int      `json:"pretraining_tp"`
	LayerTypes  []string `json:"layer_types"`
	// Original is the context before its rotary positions were stretched, where it is stated here.
	Original int `json:"original_max_position_embeddings"`

	// What the architecture says.
	partial  bool     // a part of a head's dimensions may rotate
	windowed bool     // sliding_window counts by itself: the class in transformers has no use_sliding_window
	biased   bool     // queries, keys and values have biases
	harmless []string // further fields that change nothing
}

// config reads the fields of one architecture.
func (f llamaLike) config(raw []byte) (Config, error) {
	if err := hfconfig.Decode(raw, &f, f.harmless...); err != nil {
		return Config{}, err
	}
	return f.resolve()
}

// resolve is what the fields mean.
func (f llamaLike) resolve() (Config, error) {
	rotary, err := f.rotary(f.partial, f.Original, f.Context)
	if f.Act != "silu" {
		err = both(quote.Errorf("hidden_act: %q is not supported (silu)", f.Act), err)
	}
	if f.Parallelism != 0 && f.Parallelism != 1 {
		err = both(fmt.Errorf("pretraining_tp: %d is not supported", f.Parallelism), err)
	}
	for i, t := range f.LayerTypes {
		if t != "full_attention" && t != "sliding_attention" {
			err = both(quote.Errorf("layer_types: layer %d: %q is not supported", i, t), err)
		}
	}
	if err != nil {
		return Config{}, err
	}
	if rotary.Scaling == "longrope" { // longer contexts have other frequencies
		f.Context = min(f.Context, rotary.OriginalContext)
	}
	if f.Window != nil && (f.windowed || f.UseWindow != nil && *f.UseWindow) {
		f.Context = min(f.Context, *f.Window)
	}
	return Config{Vocab: f.Vocab, Context: f.Context, Hidden: f.Hidden, Layers: f.Layers, Heads: f.Heads,
		KVHeads: f.KVHeads, Dim: f.Dim, Inner: f.Inner, NormEps: f.Eps, TiedHead: f.Tied, EOS: f.EOS, ScaleAttn: true,
		Rotary: rotary, QKVBias: f.AttnBias || f.biased, OutBias: f.AttnBias, MLPBias: f.MLPBias}, nil
}

func llamaFields(class string) func(c Config) map[string]any {
	return func(c Config) map[string]any {
		theta, scaling := c.Rotary.fields()
		f := map[string]any{
			"architectures":           []string{class},
			"max_position_embeddings": c.Context, "hidden_size": c.Hidden, "num_hidden_layers": c.Layers,
			"num_attention_heads": c.Heads,
			"num_key_value_heads": c.KVHeads, "head_dim": c.Dim, "intermediate_size": c.Inner,
			"rms_norm_eps": c.NormEps, "hidden_act": "silu",
			"rope_theta": theta, "rope_scaling": scaling, "attention_dropout": 0,
		}
		switch class {
		case "LlamaForCausalLM", "SmolLM3ForCausalLM", "GraniteForCausalLM":
			f["attention_bias"], f["mlp_bias"] = c.QKVBias, c.MLPBias
		case "Qwen3ForCausalLM", "Olmo2ForCausalLM":
			f["attention_bias"] = c.QKVBias
		default:
			f["sliding_window"] = nil
		}
		return f
	}
}

func llamaName(name string) string {
	if strings.HasSuffix(name, ".rotary_emb.inv_freq") {
		return "" // a buffer in old checkpoints
	}
	if strings.HasPrefix(name, "model.") || name == headName {
		return name
	}
	return "model." + name
}

func llamaBuild(b *builder) {
	b.decoder(func(_ int, p string) block { return b.llamaBlock(p) })
}

// decoder makes a model of the given blocks, with the names of LLaMA.
func (b *builder) decoder(f func(i int, p string) block) {
	b.m.embedding.tokens = b.take("model.embed_tokens.weight", int64(b.Vocab), b.hidden)
	b.layers("model.layers.", f)
	b.m.norm = b.rmsNorm("model.norm", b.hidden)
}

// llamaBlock makes a block of LLaMA.
func (b *builder) llamaBlock(p string) block {
	x := b.gatedBlock(p)
	x.formula = llamaBlock
	x.attnNorm = b.rmsNorm(p+"input_layernorm", b.hidden)
	x.mlpNorm = b.rmsNorm(p+"post_attention_layernorm", b.hidden)
	return x
}

// gatedBlock makes the projections of a block of LLaMA and its descendants, whose names begin with p. Its norms and its
// formula are the architecture's.
func (b *builder) gatedBlock(p string) block {
	h, in, heads, kv, d := b.hidden, int64(b.Inner), int64(b.Heads), int64(b.KVHeads), int64(b.Dim)
	gateUp := b.join(h, b.MLPBias, part{p + "mlp.gate_proj", in}, part{p + "mlp.up_proj", in})
	gateUp.gates = true
	return block{
		attn: attention{
			qkv: b.join(h, b.QKVBias, part{p + "self_attn.q_proj", heads * d},
				part{p + "self_attn.k_proj", kv * d}, part{p + "self_attn.v_proj", kv * d}),
			out: b.linear(p+"self_attn.o_proj", heads*d, h, b.OutBias), heads: heads, kvHeads: kv, dim: d},
		mlp: mlp{up: gateUp, down: b.linear(p+"mlp.down_proj", in, h, b.MLPBias), act: swiGLU},
	}
}

// headNorms gives a block norms of each query and key by itself.
func (b *builder) headNorms(p string, x *block) {
	x.attn.qNorm, x.attn.kNorm = b.rmsNorm(p+"self_attn.q_norm", x.attn.dim), b.rmsNorm(p+"self_attn.k_norm", x.attn.dim)
}

// llamaBlock is
//
//	h = x + llamaAttention(RMSNorm(x))
//	y = h + gatedMLP(RMSNorm(h))
func llamaBlock(p *plain, b *block, x tensor.Tensor) tensor.Tensor {
	x = p.Add(x, p.dropout(dropAttention, llamaAttention(p, b, p.norm(b.attnNorm, x))))
	return p.Add(x, p.dropout(dropMLP, gatedMLP(p, b, p.norm(b.mlpNorm, x))))
}

// llamaAttention is W_o·attention(R·W_q·x, R·W_k·x, W_v·x), where R rotates each head by the token's position. Qwen 3 and
// Gemma 3 have norms before it: R·RMSNorm(W_q·x) and R·RMSNorm(W_k·x).
func llamaAttention(p *plain, b *block, x tensor.Tensor) tensor.Tensor {
	q, k, v := p.qkv(b, x)
	q, k = p.rotate(b, p.norm(b.attn.qNorm, q)), p.rotate(b, p.norm(b.attn.kNorm, k))
	return p.project(b.attn.out, p.attend(b, q, k, v))
}

// gatedMLP is W_down·(silu(W_gate·x) ⊙ W_up·x); of a Gemma, with GELU instead of SiLU.
func gatedMLP(p *plain, b *block, x tensor.Tensor) tensor.Tensor {
	return p.project(b.mlp.down, b.mlp.act.apply(p.Scope, p.project(b.mlp.up, x)))
}
