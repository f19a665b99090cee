package convert

import (
	"io"
	"math"

	"popri/internal/numeric"
	"popri/model/gguf"
)

// ropeFactors is the tensor by whose elements a file divides the rotary frequencies.
const ropeFactors = "rope_freqs.weight"

const attentionFactor, scalingType, scalingFactor = "rope.scaling.attn_factor", "rope.scaling.type", "rope.scaling.factor"

// scaling pairs rope_scaling of config.json; turned is the number of dimensions of a head that positions turn.
func (c *codec) scaling(turned int) {
	switch {
	case c.exports():
		c.writeScaling(turned)
	case c.prefix == partial:
		c.config["rope_scaling"] = c.longRope(turned)
	default:
		c.config["rope_scaling"] = c.ropeScaling()
	}
}

// writeScaling writes rope_scaling as keys and tensors.
func (c *codec) writeScaling(turned int) {
	s, _ := c.config["rope_scaling"].(map[string]any)
	float := func(name string) float64 { x, _ := s[name].(float64); return x }
	switch kind := s["rope_type"]; {
	case kind == nil:
	case kind == "linear":
		c.put(scalingType, "linear")
		c.put(scalingFactor, float32(float("factor")))
	case kind == "llama3" && (c.prefix == "llama." || c.prefix == "granite."): // the architectures that read the tensor
		c.make(ropeFactors, llama3Factors(turned, c.config["rope_theta"].(float64), float("factor"),
			float("low_freq_factor"), float("high_freq_factor"), float64(s["original_max_position_embeddings"].(int))))
	case kind == "longrope" && c.prefix == partial:
		c.put(attentionFactor, float32(float("attention_factor")))
		c.make(longFactors, s["long_factor"].([]float64))
		c.make(shortFactors, s["short_factor"].([]float64))
	default:
		c.note(c.bad("", "rope_scaling", "rope_type: %q cannot be exported for this architecture", kind))
	}
}

// make adds a tensor that follows from the configuration.
func (c *codec) make(name string, values []float64) {
	c.made = append(c.made, gguf.Stream{Tensor: gguf.Tensor{Name: name, Type: gguf.F32, Shape: []int64{int64(len(values))}},
		Write: func(w io.Writer) error {
			_, err := w.Write(gguf.Append(nil, gguf.F32, numeric.Convert[float32](values)))
			return err
		}})
}

// ropeScaling returns rope_scaling of config.json, nil for none.
func (c *codec) ropeScaling() any {
	c.ignore("rope.scaling.finetuned", "rope.scaling.original_context_length") // the latter belongs to other kinds
	kind := c.text(scalingType)
	factor := c.numberOf(scalingFactor, c.numberOf("rope.scale_linear", 1))
	if x := c.numberOf(attentionFactor, 1); x != 1 {
		c.note(c.file.Bad(c.key(attentionFactor), "is %g, which is not supported", x))
	}
	_, factors := c.file.Tensor(ropeFactors)
	switch {
	case kind != "" && kind != "none" && kind != "linear":
		c.note(c.file.Bad(c.key(scalingType), "is %q, supported are none and linear, and LLaMA 3's by the "+
			"tensor %s", kind, ropeFactors))
	case factors && kind == "linear" && factor != 1:
		c.note(c.file.BadTensor(ropeFactors, "stands next to a linear scaling, which is not supported"))
	case factors:
		return c.llama3()
	case kind != "none" && factor != 1:
		return map[string]any{"rope_type": "linear", "factor": factor}
	}
	return nil
}

// LLaMA 3.1 and 3.2 stretch long wavelengths by these. They differ in the factor, which the file's largest element is.
const (
	llama3Low, llama3High = 1.0, 4.0
	llama3Original        = 8192
)

// llama3Factors are what a scaling of LLaMA 3.1 divides the frequencies of the rotary base by.
func llama3Factors(dim int, theta, factor, low, high, original float64) []float64 {
	factors := make([]float64, dim/2)
	for i := range factors {
		wave := 2 * math.Pi * math.Pow(theta, 2*float64(i)/float64(dim))
		factors[i] = 1
		switch {
		case wave > original/low:
			factors[i] = factor
		case wave >= original/high:
			smooth := (original/wave - low) / (high - low)
			factors[i] = 1 / ((1-smooth)/factor + smooth)
		}
	}
	return factors
}

// llama3 finds the scaling whose factors the file holds: the scaling of LLaMA 3.1 for the rotary base and the largest
// factor. Any others are refused, because config.json cannot state them.
func (c *codec) llama3() any {
	dim, theta := c.config["head_dim"].(int), c.config["rope_theta"].(float64)
	t, _ := c.file.Tensor(ropeFactors)
	if len(t.Shape) != 1 || t.Shape[0] != int64(dim/2) || t.Type.Quantized() {
		c.note(c.file.BadTensor(ropeFactors, "has the shape %v, must be [%d], not quantized", t.Shape, dim/2))
		return nil
	}
	have := make([]float32, dim/2)
	if err := c.file.Reader(t).Read(have, 0); err != nil {
		c.note(err)
		return nil
	}
	factor := 1.0
	for _, f := range have {
		factor = max(factor, float64(f))
	}
	if factor == 1 {
		return nil
	}
	for i, want := range llama3Factors(dim, theta, factor, llama3Low, llama3High, llama3Original) {
		if !(math.Abs(float64(have[i])-want) <= 1e-4*want) {
			c.note(c.file.BadTensor(ropeFactors, "its element %d is %g; the scaling of LLaMA 3 with the factor %g "+
				"would make it %g, and others are not supported", i, have[i], factor, want))
			return nil
		}
	}
	return map[string]any{"rope_type": "llama3", "factor": factor, "low_freq_factor": llama3Low,
		"high_freq_factor": llama3High, "original_max_position_embeddings": llama3Original}
}
