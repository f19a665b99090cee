package convert

import (
	"math"

	"popri/internal/numeric"
)

// smolLM3 has no rotary positions in every fourth layer; the file does not say in which.
func smolLM3(c *codec, _ *tensors) {
	const every = 4
	c.config["no_rope_layer_interval"], c.config["use_sliding_window"] = every, false
	c.must("attention_bias", false)
	c.must("mlp_bias", false)
	if !c.exports() {
		return
	}
	c.must("no_rope_layers", numeric.Tabulate(c.config["num_hidden_layers"].(int),
		func(i int) int { return min(1, (i+1)%every) }))
}

// granite is LLaMA with four factors.
func granite(c *codec, _ *tensors) {
	c.number("attention.scale", "attention_multiplier", 1/math.Sqrt(float64(c.config["head_dim"].(int))))
	c.number("embedding_scale", "embedding_multiplier", 1)
	c.number("residual_scale", "residual_multiplier", 1)
	c.number("logit_scale", "logits_scaling", 1)
}

// partial is the prefix of the keys of the architecture whose rotary positions may turn a part of each head.
const partial = "phi3."

// phi3 is Phi-3 and Phi-4-mini, whose projections are fused in the file as they are in the model.
func phi3(c *codec, _ *tensors) {
	c.size("rope.scaling.original_context_length", "original_max_position_embeddings",
		c.config["max_position_embeddings"].(int))
	if window := "attention.sliding_window"; c.has(window, "sliding_window") {
		c.size(window, "sliding_window", 0)
	}
	c.square()
}

// square has an export refuse heads that are together not as wide as the residual stream.
func (c *codec) square() {
	c.must("head_dim", c.config["hidden_size"].(int)/c.config["num_attention_heads"].(int))
}

// The tensors by which longrope divides the rotary frequencies, for texts beyond the original context and within it.
const longFactors, shortFactors = "rope_factors_long.weight", "rope_factors_short.weight"

// longRope returns rope_scaling of config.json for the factors that a file of Phi-3 may hold; turned is the number of
// dimensions of a head that positions turn.
func (c *codec) longRope(turned int) any {
	read := func(name string) (factors []float32) {
		t, ok := c.file.Tensor(name)
		if !ok {
			return nil
		}
		if len(t.Shape) != 1 || t.Shape[0] != int64(turned/2) || t.Type.Quantized() {
			c.note(c.file.BadTensor(name, "has the shape %v, must be [%d], not quantized", t.Shape, turned/2))
			return nil
		}
		factors = make([]float32, turned/2)
		c.note(c.file.Reader(t).Read(factors, 0))
		return factors
	}
	long, short := read(longFactors), read(shortFactors)
	if long == nil && short == nil {
		return c.ropeScaling()
	}
	if long == nil || short == nil {
		c.note(c.file.BadTensor(map[bool]string{true: longFactors, false: shortFactors}[long == nil],
			"is missing, and the other one is there"))
		return nil
	}
	c.ignore("rope.scaling.type", "rope.scaling.factor", "rope.scaling.finetuned")
	context, original := c.config["max_position_embeddings"].(int), c.sizeOf("rope.scaling.original_context_length", 0)
	// What scales queries and keys follows from both contexts.
	want := 1.0
	if context > original {
		want = math.Sqrt(1 + math.Log(float64(context)/float64(original))/math.Log(float64(original)))
	}
	if got := c.numberOf(attentionFactor, want); math.Abs(got-want) > 1e-4*want {
		c.note(c.file.Bad(c.key(attentionFactor), "is %g; contexts of %d and %d make it %g, and others are not supported",
			got, original, context, want))
	}
	return map[string]any{"rope_type": "longrope", "type": "longrope", "short_factor": short, "long_factor": long}
}
