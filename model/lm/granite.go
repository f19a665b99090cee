package lm

import (
	"fmt"

	"popri/internal/hfconfig"
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
	c, err := f.resolve(false)
	c.EmbedScale, c.AttnScale, c.ResidualScale, c.LogitsScale = f.Embedding, f.Attention, f.Residual, f.Logits
	return c, err
}

func graniteFields(c Config) map[string]any {
	f := llamaFields("GraniteForCausalLM")(c)
	f["embedding_multiplier"], f["attention_multiplier"] = c.EmbedScale, c.AttnScale
	f["residual_multiplier"], f["logits_scaling"] = c.ResidualScale, c.LogitsScale
	return f
}

func graniteBuild(m *Model, b *builder) {
	llamaBuild(m, b)
	m.embedScale = m.Config.EmbedScale
	for i := range m.blocks {
		m.blocks[i].attnOut, m.blocks[i].mlpOut = scaled{factor: m.Config.ResidualScale},
			scaled{factor: m.Config.ResidualScale}
	}
	m.norm = scaled{m.norm, 1 / m.Config.LogitsScale}
}
