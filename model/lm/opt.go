package lm

import (
	"fmt"
	"strings"

	"popri/internal/hfconfig"
	"popri/model/tensor"
)

// OPT (Zhang et al. 2022; Galactica, Taylor et al. 2022): GPT-2 with ReLU and three projections onto queries, keys and
// values. Its 350M form has norms after attention and MLP, as BERT, and tokens of another width than the residual stream.
var opt = architecture{config: optConfig, fields: optFields, build: optBuild, rename: optName,
	residual: []string{"out_proj", "fc2"}}

// OPT is what the forms of OPT differ in. The zero value is 125M's.
type OPT struct {
	NormAfter bool // the norms are of the sums with the residual stream, and none is at the end
	NoEndNorm bool // no norm is at the end
	NoAffine  bool // norms have no weights
	Width     int  // of tokens, which are projected from it and to it; 0 for the hidden size
}

// optFirst is OPT's first position: two rows before it are for padding.
const optFirst = 2

func optConfig(raw []byte) (Config, error) {
	f := struct {
		Vocab     int      `json:"vocab_size"`
		Context   int      `json:"max_position_embeddings"`
		Hidden    int      `json:"hidden_size"`
		Layers    int      `json:"num_hidden_layers"`
		Heads     int      `json:"num_attention_heads"`
		Inner     int      `json:"ffn_dim"`
		Act       string   `json:"activation_function"`
		Tied      bool     `json:"tie_word_embeddings"`
		EOS       tokenIDs `json:"eos_token_id"`
		Bias      bool     `json:"enable_bias"`
		Before    bool     `json:"do_layer_norm_before"`
		NoEndNorm bool     `json:"_remove_final_layer_norm"`
		Affine    bool     `json:"layer_norm_elementwise_affine"`
		Width     *int     `json:"word_embed_proj_dim"`
	}{Vocab: 50272, Context: 2048, Hidden: 768, Layers: 12, Heads: 12, Inner: 3072, Act: "relu", Tied: true, Bias: true,
		Before: true, Affine: true}
	if err := hfconfig.Decode(raw, &f, "activation_dropout", "dropout", "init_std", "layerdrop"); err != nil {
		return Config{}, err
	}
	if err := checkActivation("activation_function", f.Act); err != nil {
		return Config{}, err
	}
	form := OPT{NormAfter: !f.Before, NoEndNorm: f.NoEndNorm, NoAffine: !f.Affine}
	if f.Width != nil && *f.Width != f.Hidden {
		if form.Width = *f.Width; form.Width < 1 || form.Width > 1<<24 {
			return Config{}, fmt.Errorf("word_embed_proj_dim: %d is not supported", form.Width)
		}
	}
	return Config{Vocab: f.Vocab, Context: f.Context, Hidden: f.Hidden, Layers: f.Layers, Heads: f.Heads,
		Inner: f.Inner, NormEps: 1e-5, Gelu: f.Act, TiedHead: f.Tied, EOS: f.EOS, ScaleAttn: true,
		FirstPosition: optFirst, QKVBias: f.Bias, OutBias: f.Bias, MLPBias: f.Bias, OPT: form}, nil
}

func optFields(c Config) map[string]any {
	f := map[string]any{
		"architectures":           []string{"OPTForCausalLM"},
		"max_position_embeddings": c.Context, "hidden_size": c.Hidden, "num_hidden_layers": c.Layers,
		"num_attention_heads": c.Heads, "ffn_dim": c.Inner, "activation_function": c.Gelu, "enable_bias": c.QKVBias,
		"do_layer_norm_before": !c.OPT.NormAfter, "_remove_final_layer_norm": c.OPT.NoEndNorm,
		"layer_norm_elementwise_affine": !c.OPT.NoAffine, "word_embed_proj_dim": c.Hidden,
		"attention_dropout": 0, "dropout": 0, "layerdrop": 0,
	}
	if c.OPT.Width != 0 {
		f["word_embed_proj_dim"] = c.OPT.Width
	}
	return f
}

func optName(name string) string {
	switch {
	case strings.HasSuffix(name, "decoder.version"): // a buffer in old checkpoints
		return ""
	case name == headName, strings.HasPrefix(name, "model."):
		return name
	}
	return "model." + name
}

func optBuild(b *builder) {
	const top = "model.decoder."
	h, in, width := b.hidden, int64(b.Inner), b.hidden
	if b.OPT.Width != 0 {
		width = int64(b.OPT.Width)
	}
	b.m.embedding = embedding{tokens: b.take(top+"embed_tokens.weight", int64(b.Vocab), width),
		positions: b.take(top+"embed_positions.weight", int64(b.Context)+optFirst, h)}
	layerNorm := b.layerNorm
	if b.OPT.NoAffine {
		layerNorm = func(string) norm { return standardized{b.NormEps} }
	}
	formula := gpt2Block
	if b.OPT.NormAfter {
		formula = bertBlock
	}
	b.layers(top+"layers.", func(_ int, p string) block {
		return block{formula: formula, after: b.OPT.NormAfter,
			attnNorm: layerNorm(p + "self_attn_layer_norm"),
			attn: attention{qkv: b.join(h, b.QKVBias, part{p + "self_attn.q_proj", h}, part{p + "self_attn.k_proj", h},
				part{p + "self_attn.v_proj", h}),
				out:   b.linear(p+"self_attn.out_proj", h, h, b.OutBias),
				heads: int64(b.Heads), kvHeads: int64(b.Heads), dim: int64(b.HeadDim())},
			mlpNorm: layerNorm(p + "final_layer_norm"),
			mlp: mlp{up: b.linear(p+"fc1", h, in, b.MLPBias), down: b.linear(p+"fc2", in, h, b.MLPBias),
				act: b.activation()},
		}
	})
	if !b.OPT.NormAfter && !b.OPT.NoEndNorm {
		b.m.norm = layerNorm(top + "final_layer_norm")
	}
	if width != h {
		b.m.embedding.project = b.take(top+"project_in.weight", h, width)
		b.m.norm = projected{b.m.norm, b.linear(top+"project_out", h, width, false)}
	}
}

// standardized is a layer norm without weights.
type standardized struct{ eps float64 }

func (n standardized) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	width := x.Size(-1)
	return s.LayerNorm(x, s.Full(tensor.Float32, 1, width), s.Zeros(tensor.Float32, width), n.eps)
}

// projected is a projection after a norm.
type projected struct {
	norm
	out projection
}

func (n projected) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	return n.out.matrix.fast(s, normed(s, n.norm, x))
}
