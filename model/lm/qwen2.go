package lm

import (
	"slices"

	"popri/internal/hfconfig"
)

// Qwen2 (Yang et al. 2024) is LLaMA with biases on queries, keys and values.
var qwen2 = architecture{config: qwenLike{llamaLike{Vocab: 151936, Context: 32768, Hidden: 4096, Layers: 32, Heads: 32,
	KVHeads: 32, Inner: 22016, Eps: 1e-6, Act: "silu", biased: true,
	rotaryFields: rotaryFields{Theta: 10000}}, 28}.config, fields: llamaFields("Qwen2ForCausalLM"), build: llamaBuild,
	rename: llamaName, residual: llamaResidual}

// qwenLike has a window in the layers from a number on, or in those that layer_types names.
type qwenLike struct {
	llamaLike
	WindowFrom int `json:"max_window_layers"`
}

func (f qwenLike) config(raw []byte) (Config, error) {
	f.Window = new(4096) // which is overwritten
	if err := hfconfig.Decode(raw, &f); err != nil {
		return Config{}, err
	}
	windowed := f.WindowFrom < f.Layers
	if f.LayerTypes != nil {
		windowed = slices.Contains(f.LayerTypes, localLayer)
	}
	if !windowed {
		f.Window = nil
	}
	return f.resolve()
}
