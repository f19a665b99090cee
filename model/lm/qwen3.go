package lm

// Qwen3 (Yang et al. 2025) is LLaMA with RMS norms of each query and key before positions rotate them.
var qwen3 = architecture{config: qwenLike{llamaLike{Vocab: 151936, Context: 32768, Hidden: 4096, Layers: 32, Heads: 32,
	KVHeads: 32, Dim: 128, Inner: 22016, Eps: 1e-6, Act: "silu",
	rotaryFields: rotaryFields{Theta: 10000}}, 28}.config, fields: llamaFields("Qwen3ForCausalLM"), build: qwen3Build,
	rename: llamaName, residual: llamaResidual}

func qwen3Build(b *builder) {
	b.decoder(func(_ int, p string) block {
		x := b.llamaBlock(p)
		b.headNorms(p, &x)
		return x
	})
}
