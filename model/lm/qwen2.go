package lm

// Qwen2 (Yang et al. 2024) is LLaMA with biases on queries, keys and values.
var qwen2 = architecture{config: qwen2Config, fields: llamaFields("Qwen2ForCausalLM"), build: llamaBuild,
	rename: llamaName, residual: llamaResidual}

func qwen2Config(raw []byte) (Config, error) {
	f := llamaLike{Vocab: 151936, Context: 32768, Hidden: 4096, Layers: 32, Heads: 32, KVHeads: 32, Inner: 22016,
		Eps: 1e-6, Act: "silu", Window: new(4096),
		rotaryFields: rotaryFields{Theta: 10000}}
	c, err := f.config(raw, false, "max_window_layers")
	c.QKVBias = true
	return c, err
}
