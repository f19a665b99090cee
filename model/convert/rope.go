package convert

import "math"

// ropeFactors is the tensor by whose elements a file divides the rotary frequencies.
const ropeFactors = "rope_freqs.weight"

// ropeScaling returns rope_scaling of config.json, nil for none.
func (r *reader) ropeScaling(config map[string]any) any {
	r.ignore("rope.scaling.finetuned", "rope.scaling.original_context_length") // the latter belongs to other kinds
	kind := r.text("rope.scaling.type")
	factor := r.number("rope.scaling.factor", r.number("rope.scale_linear", 1))
	if name := "rope.scaling.attn_factor"; r.number(name, 1) != 1 {
		r.note(r.file.Bad(r.key(name), "is %g, which is not supported", r.number(name, 1)))
	}
	_, factors := r.file.Tensor(ropeFactors)
	switch {
	case kind != "" && kind != "none" && kind != "linear":
		r.note(r.file.Bad(r.key("rope.scaling.type"), "is %q, supported are none and linear, and LLaMA 3's by the "+
			"tensor %s", kind, ropeFactors))
	case factors && kind == "linear" && factor != 1:
		r.note(r.file.BadTensor(ropeFactors, "stands next to a linear scaling, which is not supported"))
	case factors:
		return r.llama3(config)
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

// llama3 finds the scaling whose factors the file holds: those of LLaMA 3.1 for the rotary base and the largest factor.
// Any others are refused, because config.json cannot state them.
func (r *reader) llama3(config map[string]any) any {
	dim, theta := config["head_dim"].(int), config["rope_theta"].(float64)
	t, _ := r.file.Tensor(ropeFactors)
	if len(t.Shape) != 1 || t.Shape[0] != int64(dim/2) || t.Type.Quantized() {
		r.note(r.file.BadTensor(ropeFactors, "has the shape %v, must be [%d], not quantized", t.Shape, dim/2))
		return nil
	}
	have := make([]float32, dim/2)
	if err := r.file.Reader(t).Read(have, 0); err != nil {
		r.note(err)
		return nil
	}
	factor := 1.0
	for _, f := range have {
		factor = max(factor, float64(f))
	}
	if factor == 1 {
		return nil
	}
	for i, f := range have {
		wave := 2 * math.Pi * math.Pow(theta, 2*float64(i)/float64(dim))
		want := 1.0
		switch {
		case wave > llama3Original/llama3Low:
			want = factor
		case wave >= llama3Original/llama3High:
			smooth := (llama3Original/wave - llama3Low) / (llama3High - llama3Low)
			want = 1 / ((1-smooth)/factor + smooth)
		}
		if !(math.Abs(float64(f)-want) <= 1e-4*want) {
			r.note(r.file.BadTensor(ropeFactors,
				"its element %d is %g; the scaling of LLaMA 3 with the factor %g would "+
					"make it %g, and others are not supported", i, f, factor, want))
			return nil
		}
	}
	return map[string]any{"rope_type": "llama3", "factor": factor, "low_freq_factor": llama3Low,
		"high_freq_factor": llama3High, "original_max_position_embeddings": llama3Original}
}
