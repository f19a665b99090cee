package lm

import (
	"fmt"

	"popri/internal/hfconfig"
	"popri/model/tensor"
)

// Granite (IBM 2024) is LLaMA with constant factors: of the embeddings, of the attention scores, of what attention and
// MLP add to the residual stream, and one that divides the logits.
var granite = architecture{config: graniteConfig, fields: graniteFields, build: graniteBuild, rename: llamaName,
	residual: llamaResidual}

func graniteConfig(raw []byte) (Config, error) {
	f := struct {
		llamaLike
		Embedding float64 `json:"embedding_multiplier"`
		Attention float64 `json:"attention_multiplier"`
		Residual  float64 `json:"residual_multiplier"`
		Logits    float64 `json:"logits_scaling"`
	}{llamaLike: llamaLike{Vocab: 32000, Context: 2048, Hidden: 4096, Layers: 32, Heads: 32, Inner: 11008, Eps: 1e-6,
		Act: "silu", rotaryFields: rotaryFields{Theta: 10000}}, Embedding: 1, Attention: 1, Residual: 1, Logits: 1}
	if err := hfconfig.Decode(raw, &f); err != nil {
		return Config{}, err
	}
	for name, v := range map[string]float64{"embedding_multiplier": f.Embedding, "attention_multiplier": f.Attention,
		"residual_multiplier": f.Residual, "logits_scaling": f.Logits} {
		if v == 0 {
			return Config{}, fmt.Errorf("%s is 0", name)
		}
	}
	c, err := f.resolve()
	c.EmbedScale, c.AttnScale, c.ResidualScale, c.LogitsScale = f.Embedding, f.Attention, f.Residual, f.Logits
	return c, err
}

func graniteFields(c Config) map[string]any {
	f := llamaFields("GraniteForCausalLM")(c)
	f["embedding_multiplier"], f["attention_multiplier"] = c.EmbedScale, c.AttnScale
	f["residual_multiplier"], f["logits_scaling"] = c.ResidualScale, c.LogitsScale
	return f
}

func graniteBuild(b *builder) {
	b.decoder(func(_ int, p string) block {
		x := b.llamaBlock(p)
		x.formula = graniteBlock
		x.attnOut, x.mlpOut = scaled{factor: b.ResidualScale}, scaled{factor: b.ResidualScale}
		return x
	})
	b.m.embedding.scale = b.EmbedScale
	b.m.norm = scaled{b.m.norm, 1 / b.LogitsScale}
}

// graniteBlock is, with the constant r,
//
//	h = x + r·llamaAttention(RMSNorm(x))
//	y = h + r·gatedMLP(RMSNorm(h))
func graniteBlock(p *plain, b *block, x tensor.Tensor) tensor.Tensor {
	r := p.m.Config.ResidualScale
	x = p.Add(x, p.dropout(dropAttention, p.MulScalar(llamaAttention(p, b, p.norm(b.attnNorm, x)), r)))
	return p.Add(x, p.dropout(dropMLP, p.MulScalar(gatedMLP(p, b, p.norm(b.mlpNorm, x)), r)))
}
