package lm

import (
	"fmt"
	"strings"

	"popri/internal/hfconfig"
	"popri/internal/quote"
	"popri/model/tensor"
)

// BERT (Devlin et al. 2018) as a causal language model: norms after attention and MLP, a norm after the embeddings, and
// a transformation before the head, which has a bias. It is always masked as a decoder, whatever is_decoder says,
// because what is measured is the prediction of the next token; only a classifier sees both sides. It is for
// fine-tuning and measuring; it does not sample.
var bert = architecture{config: bertConfig, fields: bertFields, build: bertBuild, rename: bertName}

func bertConfig(raw []byte) (Config, error) {
	f := struct {
		Vocab     int     `json:"vocab_size"`
		Context   int     `json:"max_position_embeddings"`
		Hidden    int     `json:"hidden_size"`
		Layers    int     `json:"num_hidden_layers"`
		Heads     int     `json:"num_attention_heads"`
		Inner     int     `json:"intermediate_size"`
		Types     int     `json:"type_vocab_size"`
		Eps       float64 `json:"layer_norm_eps"`
		Act       string  `json:"hidden_act"`
		Tied      *bool   `json:"tie_word_embeddings"`
		Positions string  `json:"position_embedding_type"`
		Decoder   bool    `json:"is_decoder"`
	}{Vocab: 30522, Context: 512, Hidden: 768, Layers: 12, Heads: 12, Inner: 3072, Types: 2, Eps: 1e-12, Act: "gelu",
		Positions: "absolute"}
	err := hfconfig.Decode(raw, &f, "eos_token_id")
	if err != nil {
		return Config{}, err
	}
	if err := checkActivation("hidden_act", f.Act); err != nil {
		return Config{}, err
	}
	switch {
	case f.Positions != "absolute":
		return Config{}, quote.Errorf("position_embedding_type: %q is not supported (absolute)", f.Positions)
	case f.Tied != nil && !*f.Tied:
		return Config{}, quote.Errorf("tie_word_embeddings: false is not supported for BERT")
	case f.Types < 1 || f.Types > 1<<16:
		return Config{}, fmt.Errorf("type_vocab_size: %d is not supported", f.Types)
	}
	return Config{Vocab: f.Vocab, Context: f.Context, Hidden: f.Hidden, Layers: f.Layers, Heads: f.Heads,
		Inner: f.Inner, NormEps: f.Eps, Gelu: f.Act, TiedHead: true, ScaleAttn: true, Types: f.Types}, nil
}

func bertFields(c Config) map[string]any {
	return map[string]any{
		"architectures":           []string{"BertLMHeadModel"},
		"max_position_embeddings": c.Context, "hidden_size": c.Hidden, "num_hidden_layers": c.Layers,
		"num_attention_heads": c.Heads, "intermediate_size": c.Inner, "type_vocab_size": c.Types,
		"layer_norm_eps": c.NormEps, "hidden_act": c.Gelu, "is_decoder": !c.twoWay(),
	}
}

func bertName(name string) string {
	for _, unused := range []string{"bert.pooler.", "pooler.", "cls.seq_relationship."} {
		if strings.HasPrefix(name, unused) {
			return ""
		}
	}
	switch {
	case strings.HasSuffix(name, "embeddings.position_ids"), name == "cls.predictions.decoder.bias": // equal to others
		return ""
	case name == "cls.predictions.decoder.weight":
		return headName
	}
	for old, now := range map[string]string{"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"} {
		if before, ok := strings.CutSuffix(name, old); ok {
			name = before + now
		}
	}
	if strings.HasPrefix(name, "bert.") || strings.HasPrefix(name, "cls.") || name == headName {
		return name
	}
	return "bert." + name
}

func bertBuild(b *builder) {
	h, in, act := b.hidden, int64(b.Inner), b.activation()
	b.m.embedding = embedding{tokens: b.take("bert.embeddings.word_embeddings.weight", int64(b.Vocab), h),
		positions: b.take("bert.embeddings.position_embeddings.weight", int64(b.Context+b.FirstPosition), h),
		types:     b.take("bert.embeddings.token_type_embeddings.weight", int64(b.Types), h),
		norm:      b.layerNorm("bert.embeddings.LayerNorm")}
	b.layers("bert.encoder.layer.", func(_ int, p string) block {
		return block{formula: bertBlock, after: true,
			attn: attention{
				qkv: b.join(h, true, part{p + "attention.self.query", h}, part{p + "attention.self.key", h},
					part{p + "attention.self.value", h}),
				out:   b.linear(p+"attention.output.dense", h, h, true),
				heads: int64(b.Heads), kvHeads: int64(b.Heads), dim: int64(b.HeadDim())},
			attnNorm: b.layerNorm(p + "attention.output.LayerNorm"),
			mlp: mlp{up: b.linear(p+"intermediate.dense", h, in, true), down: b.linear(p+"output.dense", in, h, true),
				act: act},
			mlpNorm: b.layerNorm(p + "output.LayerNorm"),
		}
	})
	if b.Classifies() {
		return
	}
	const head = "cls.predictions."
	b.m.norm = transformation{b.linear(head+"transform.dense", h, h, true), b.layerNorm(head + "transform.LayerNorm"), act}
	b.m.head.bias = b.take(head+"bias", int64(b.Vocab))
}

// bertBlock is
//
//	h = LayerNorm(x + W_o·attention(W_q·x, W_k·x, W_v·x))
//	y = LayerNorm(h + W_down·gelu(W_up·h))
func bertBlock(p *plain, b *block, x tensor.Tensor) tensor.Tensor {
	q, k, v := p.qkv(b, x)
	y := p.project(b.attn.out, p.attend(b, q, k, v))
	x = p.norm(b.attnNorm, p.Add(x, p.dropout(dropAttention, y)))
	y = p.project(b.mlp.down, b.mlp.act.apply(p.Scope, p.project(b.mlp.up, x)))
	return p.norm(b.mlpNorm, p.Add(x, p.dropout(dropMLP, y)))
}

// canSample reports whether the model can continue texts.
func (m *Model) canSample() bool { return m.embedding.norm == nil && !m.Config.Classifies() }

// transformation is BERT's step before the head: norm(gelu(dense(x))).
type transformation struct {
	dense projection
	norm  norm
	act   activation
}

func (n transformation) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	return n.norm.apply(s, n.act.apply(s, n.dense.matrix.fast(s, x)))
}
