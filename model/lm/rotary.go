package lm

import (
	"encoding/json"
	"fmt"
	"math"

	"popri/internal/hfconfig"
	"popri/internal/quote"
	"popri/model/tensor"
)

// Rotary says how positions rotate queries and keys (Su et al. 2021): dimension i of a head's first half and dimension
// i of its second half form a plane, which position p rotates by the angle p·f(i), f(i) = Theta^(-2i/D) before scaling.
// The zero value means no rotary positions.
type Rotary struct {
	Theta float64 // base of the frequencies
	// Scaling stretches the frequencies for a longer context: "" not at all, "linear" all by 1/Factor, "llama3" (Llama 3.1)
	// those of wavelengths beyond OriginalContext/LowFactor by 1/Factor, none of wavelengths below
	// OriginalContext/HighFactor, and a blend between.
	Scaling               string
	Factor                float64
	LowFactor, HighFactor float64
	OriginalContext       int
}

// rotaryFields are the fields of config.json about rotary positions, in the layouts of transformers 4 and 5.
type rotaryFields struct {
	Theta      float64         `json:"rope_theta"`
	Scaling    json.RawMessage `json:"rope_scaling"`
	Parameters json.RawMessage `json:"rope_parameters"`
}

func (f rotaryFields) rotary() (Rotary, error) {
	name, raw := "rope_parameters", f.Parameters
	if len(raw) == 0 || hfconfig.Off(raw) {
		name, raw = "rope_scaling", f.Scaling
	}
	r := Rotary{Theta: f.Theta}
	if len(raw) == 0 || hfconfig.Off(raw) {
		return r, nil
	}
	p := struct {
		Theta    float64 `json:"rope_theta"`
		Type     string  `json:"rope_type"`
		OldType  string  `json:"type"`
		Factor   float64 `json:"factor"`
		Low      float64 `json:"low_freq_factor"`
		High     float64 `json:"high_freq_factor"`
		Original int     `json:"original_max_position_embeddings"`
		Partial  float64 `json:"partial_rotary_factor"`
	}{Theta: f.Theta, Partial: 1}
	if err := hfconfig.Decode(raw, &p); err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	if p.Type == "" {
		p.Type = p.OldType
	}
	if p.Partial != 1 {
		return r, fmt.Errorf("%s: partial_rotary_factor: %g is not supported", name, p.Partial)
	}
	r.Theta = p.Theta
	switch p.Type {
	case "", "default":
	case "linear":
		r.Scaling, r.Factor = p.Type, p.Factor
	case "llama3":
		r.Scaling, r.Factor, r.LowFactor, r.HighFactor, r.OriginalContext = p.Type, p.Factor, p.Low, p.High, p.Original
	default:
		return r, quote.Errorf("%s: rope_type: %q is not supported (default, linear, llama3)", name, p.Type)
	}
	return r, nil
}

// fields is the inverse of rotaryFields, in the layout that all versions of transformers read.
func (r Rotary) fields() (theta float64, scaling map[string]any) {
	switch r.Scaling {
	case "linear":
		scaling = map[string]any{"rope_type": "linear", "factor": r.Factor}
	case "llama3":
		scaling = map[string]any{"rope_type": "llama3", "factor": r.Factor, "low_freq_factor": r.LowFactor,
			"high_freq_factor":                 r.HighFactor,
			"original_max_position_embeddings": r.OriginalContext}
	}
	return r.Theta, scaling
}

func (r Rotary) check(dim int) error {
	finite := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	switch {
	case r == Rotary{}:
		return nil
	case !finite(r.Theta):
		return fmt.Errorf("rope_theta is %g", r.Theta)
	case dim%2 != 0:
		return fmt.Errorf("rotary positions need an even width of a head, not %d", dim)
	case r.Scaling != "" && !finite(r.Factor):
		return fmt.Errorf("the rotary scaling's factor is %g", r.Factor)
	case r.Scaling == "llama3" && !(finite(r.LowFactor) && finite(r.HighFactor) && r.HighFactor > r.LowFactor &&
		r.OriginalContext > 0):
		return fmt.Errorf("the rotary scaling llama3 has low_freq_factor %g, high_freq_factor %g, "+
			"original_max_position_embeddings %d", r.LowFactor, r.HighFactor, r.OriginalContext)
	}
	return nil
}

// frequencies returns f(0) … f(dim/2-1), rounded to float32 where the reference rounds.
func (r Rotary) frequencies(dim int) []float32 {
	out := make([]float32, dim/2)
	for i := range out {
		f := float64(1 / float32(math.Pow(r.Theta, float64(float32(2*i)/float32(dim)))))
		switch r.Scaling {
		case "linear":
			f /= r.Factor
		case "llama3":
			old := float64(r.OriginalContext)
			wave := 2 * math.Pi / f
			switch {
			case wave > old/r.LowFactor:
				f /= r.Factor
			case wave >= old/r.HighFactor:
				smooth := (old/wave - r.LowFactor) / (r.HighFactor - r.LowFactor)
				f = (1-smooth)*f/r.Factor + smooth*f
			}
		}
		out[i] = float32(f)
	}
	return out
}

// rotation holds the cosines and sines of a batch's positions, [B or 1, T, 1, D] each. The sines of the first half are
// negative, so that x·cos + swap(x)·sin is the rotation. The zero value rotates nothing.
type rotation struct{ cos, sin tensor.Tensor }

// rotation computes the tables for the positions of in, in float32, and gives them the type d.
func (m *Model) rotation(s *tensor.Scope, in Input, d tensor.DType) rotation {
	if !m.frequencies.Defined() {
		return rotation{}
	}
	at := in.Positions
	if !at.Defined() {
		t := in.IDs.Size(1)
		at = s.View(s.Arange(0, t), 1, t)
	}
	angles := s.Mul(s.Unsqueeze(s.To(at, tensor.Float32), 2), m.frequencies) // [B, T, D/2]
	cos, sin := s.Cos(angles), s.Sin(angles)
	return rotation{
		cos: s.To(s.Unsqueeze(s.Cat(2, cos, cos), 2), d),
		sin: s.To(s.Unsqueeze(s.Cat(2, s.Neg(sin), sin), 2), d),
	}
}

// apply rotates the heads x [B, T, heads, D].
func (t rotation) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	half := x.Size(3) / 2
	swapped := s.Cat(3, s.Narrow(x, 3, half, half), s.Narrow(x, 3, 0, half))
	return s.Add(s.Mul(x, t.cos), s.Mul(swapped, t.sin))
}
