package convert

import "math"

// planSmolLM3 reads SmolLM3, of which every fourth layer has no rotary positions; the file does not say which.
func planSmolLM3(r *reader) (map[string]any, []weight, error) {
	config, t := r.rotaryDecoder()
	config["model_type"], config["architectures"] = "smollm3", []string{"SmolLM3ForCausalLM"}
	config["no_rope_layer_interval"], config["use_sliding_window"] = 4, false
	t.decoder(config, t.biases(config), true, llamaNorms)
	return config, t.list, r.err
}

// planGranite reads Granite, LLaMA with four factors.
func planGranite(r *reader) (map[string]any, []weight, error) {
	config, t := r.rotaryDecoder()
	config["model_type"], config["architectures"] = "granite", []string{"GraniteForCausalLM"}
	config["attention_multiplier"] = r.number("attention.scale", 1/math.Sqrt(float64(config["head_dim"].(int))))
	config["embedding_multiplier"], config["residual_multiplier"] = r.number("embedding_scale",
		1), r.number("residual_scale", 1)
	config["logits_scaling"] = r.number("logit_scale", 1)
	t.decoder(config, t.biases(config), true, llamaNorms)
	return config, t.list, r.err
}

// planOlmo2 reads OLMo 2, whose norms follow attention and MLP, and are of all heads' queries and keys at once. OLMo 3,
// whose files have the same name, has a window, which is refused.
func planOlmo2(r *reader) (map[string]any, []weight, error) {
	config, t := r.rotaryDecoder()
	config["model_type"], config["architectures"] = "olmo2", []string{"Olmo2ForCausalLM"}
	config["attention_bias"] = false
	t.decoder(config, biases{}, false,
		append([]norm{{"self_attn.q_norm", "attn_q_norm", queries}, {"self_attn.k_norm", "attn_k_norm", keys}},
			afterNorms...))
	return config, t.list, r.err
}

// partial is the prefix of the keys of the architecture whose rotary positions may turn a part of each head.
const partial = "phi3."

// planPhi3 reads Phi-3 and Phi-4-mini, whose projections are fused in the file as they are in the model.
func planPhi3(r *reader) (map[string]any, []weight, error) {
	config, t := r.rotaryDecoder()
	config["model_type"], config["architectures"] = "phi3", []string{"Phi3ForCausalLM"}
	config["original_max_position_embeddings"] = r.size("rope.scaling.original_context_length",
		config["max_position_embeddings"].(int))
	if window := "attention.sliding_window"; r.has(window) {
		config["sliding_window"] = r.size(window, 0)
	}
	t.decoder(config, biases{joined: true}, false, llamaNorms)
	return config, t.list, r.err
}

// The tensors by which longrope divides the rotary frequencies, for texts beyond the original context and within it.
const longFactors, shortFactors = "rope_factors_long.weight", "rope_factors_short.weight"

// longRope returns rope_scaling of config.json for the factors that a file of Phi-3 may hold; turned is the number of
// dimensions of a head that positions turn.
func (r *reader) longRope(config map[string]any, turned int) any {
	read := func(name string) (factors []float32) {
		t, ok := r.file.Tensor(name)
		if !ok {
			return nil
		}
		if len(t.Shape) != 1 || t.Shape[0] != int64(turned/2) || t.Type.Quantized() {
			r.note(r.file.BadTensor(name, "has the shape %v, must be [%d], not quantized", t.Shape, turned/2))
			return nil
		}
		factors = make([]float32, turned/2)
		r.note(r.file.Reader(t).Read(factors, 0))
		return factors
	}
	long, short := read(longFactors), read(shortFactors)
	if long == nil && short == nil {
		return r.ropeScaling(config)
	}
	if long == nil || short == nil {
		r.note(r.file.BadTensor(map[bool]string{true: longFactors, false: shortFactors}[long == nil],
			"is missing, and the other one is there"))
		return nil
	}
	r.ignore("rope.scaling.type", "rope.scaling.factor", "rope.scaling.finetuned")
	context, original := config["max_position_embeddings"].(int), r.size("rope.scaling.original_context_length", 0)
	// What scales queries and keys follows from both contexts.
	want := 1.0
	if context > original {
		want = math.Sqrt(1 + math.Log(float64(context)/float64(original))/math.Log(float64(original)))
	}
	if name := "rope.scaling.attn_factor"; math.Abs(r.number(name, want)-want) > 1e-4*want {
		r.note(r.file.Bad(r.key(name), "is %g; contexts of %d and %d make it %g, and others are not supported",
			r.number(name, want), original, context, want))
	}
	return map[string]any{"rope_type": "longrope", "type": "longrope", "short_factor": short, "long_factor": long}
}
