package convert

import "math"

// smolLM3 has no rotary positions in every fourth layer; the file does not say in which.
func smolLM3(_ *reader, config map[string]any, _ *tensors) {
	config["no_rope_layer_interval"], config["use_sliding_window"] = 4, false
}

// granite is LLaMA with four factors.
func granite(r *reader, config map[string]any, _ *tensors) {
	config["attention_multiplier"] = r.number("attention.scale", 1/math.Sqrt(float64(config["head_dim"].(int))))
	config["embedding_multiplier"] = r.number("embedding_scale", 1)
	config["residual_multiplier"] = r.number("residual_scale", 1)
	config["logits_scaling"] = r.number("logit_scale", 1)
}

// partial is the prefix of the keys of the architecture whose rotary positions may turn a part of each head.
const partial = "phi3."

// phi3 is Phi-3 and Phi-4-mini, whose projections are fused in the file as they are in the model.
func phi3(r *reader, config map[string]any, _ *tensors) {
	config["original_max_position_embeddings"] = r.size("rope.scaling.original_context_length",
		config["max_position_embeddings"].(int))
	if window := "attention.sliding_window"; r.has(window) {
		config["sliding_window"] = r.size(window, 0)
	}
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
