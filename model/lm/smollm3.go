package lm

import (
	"fmt"

	"popri/internal/hfconfig"
)

// SmolLM3 (Bakouch et al. 2025) is LLaMA with layers, every fourth by default, that positions do not rotate.
var smollm3 = architecture{config: smollm3Config, fields: smollm3Fields, build: smollm3Build, rename: llamaName,
	residual: llamaResidual}

func smollm3Config(raw []byte) (Config, error) {
	f := struct {
		llamaLike
		Turned   []int `json:"no_rope_layers"` // 1 for a layer that positions rotate, 0 for one that they do not
		Interval int   `json:"no_rope_layer_interval"`
	}{llamaLike: llamaLike{Vocab: 128256, Context: 32768, Hidden: 2048, Layers: 36, Heads: 16, KVHeads: 4, Inner: 11008,
		Eps: 1e-6, Act: "silu", Tied: true, rotaryFields: rotaryFields{Theta: 2e6}}, Interval: 4}
	// The reference reads pretraining_tp and does nothing with it.
	if err := hfconfig.Decode(raw, &f, "max_window_layers"); err != nil {
		return Config{}, err
	}
	f.Parallelism = 1
	c, err := f.resolve()
	if err != nil || f.Turned == nil && f.Interval == 0 {
		return c, err
	}
	if f.Turned != nil && len(f.Turned) != c.Layers {
		return c, fmt.Errorf("no_rope_layers has %d values, num_hidden_layers is %d", len(f.Turned), c.Layers)
	}
	if c.Layers > mostLayers {
		return c, fmt.Errorf("num_hidden_layers is %d", c.Layers)
	}
	c.Unturned = make([]bool, max(0, c.Layers))
	for i := range c.Unturned {
		if f.Turned != nil {
			c.Unturned[i] = f.Turned[i] == 0
		} else {
			c.Unturned[i] = (i+1)%f.Interval == 0
		}
	}
	return c, nil
}

// mostLayers bounds the lists that a number of layers makes.
const mostLayers = 1 << 16

func smollm3Fields(c Config) map[string]any {
	f := llamaFields("SmolLM3ForCausalLM")(c)
	rotated := make([]int, c.Layers)
	for i := range rotated {
		if i >= len(c.Unturned) || !c.Unturned[i] {
			rotated[i] = 1
		}
	}
	f["no_rope_layers"], f["use_sliding_window"], f["sliding_window"] = rotated, false, nil
	return f
}

func smollm3Build(b *builder) {
	b.decoder(func(i int, p string) block {
		x := b.llamaBlock(p)
		x.attn.unturned = i < len(b.Unturned) && b.Unturned[i]
		return x
	})
}
