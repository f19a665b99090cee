package lm

// Mistral (Jiang et al. 2023) is LLaMA with attention over a window of the last tokens. The context is cut to the
// window, within which that is full attention.
var mistral = architecture{config: mistralConfig, fields: llamaFields("MistralForCausalLM"), build: llamaBuild,
	rename: llamaName, residual: llamaResidual}

func mistralConfig(raw []byte) (Config, error) {
	return llamaLike{Vocab: 32000, Context: 4096 * 32, Hidden: 4096, Layers: 32, Heads: 32, KVHeads: 8, Inner: 14336,
		Eps: 1e-6, Act: "silu", Window: new(4096), windowed: true, rotaryFields: rotaryFields{Theta: 10000}}.config(raw)
}
