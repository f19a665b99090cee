package lm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"popri/internal/hfconfig"
	"popri/internal/quote"
	"popri/model/tensor"
)

// Rotary says how positions rotate queries and keys (Su et al. 2021): dimension i of a head's first half and dimension
// i of its second half form a plane, which position p rotates by the angle p·f(i), f(i) = Theta^(-2i/D) before scaling.
// The zero value means no rotary positions.
type Rotary struct {
	Theta float64 // base of the frequencies
	// Scaling stretches the frequencies for a longer context: "" not at all, "linear" all by 1/Factor, "llama3" (Llama
	// 3.1) frequencies of wavelengths beyond OriginalContext/LowFactor by 1/Factor, none of wavelengths below
	// OriginalContext/HighFactor, and a blend between.
	Scaling               string
	Factor                float64
	LowFactor, HighFactor float64
	OriginalContext       int
	// Partial is the fraction of a head's dimensions, the first ones, that rotate; 0 for all.
	Partial float64
	// "longrope" (Ding et al. 2024) divides each frequency by a number of Short, and multiplies cosines and sines by
	// Magnitude. Long is for contexts longer than OriginalContext, which are not used here.
	Short, Long []float64
	Magnitude   float64
	// "yarn" (Peng et al. 2023) divides frequencies by Factor that turn less than Slow times within OriginalContext, none that
	// turn more than Fast times, and blends between; cosines and sines are multiplied by Magnitude. Exact leaves the borders
	// between as they are computed, which are whole planes otherwise.
	Fast, Slow float64
	Exact      bool
}

// rotates reports whether there are rotary positions.
func (r Rotary) rotates() bool { return r.Theta != 0 || r.Scaling != "" }

// dim is the number of dimensions of a head that rotate.
func (r Rotary) dim(head int) int {
	if r.Partial == 0 {
		return head
	}
	return int(float64(head) * r.Partial)
}

// rotaryFields are the fields of config.json about rotary positions, in the layouts of transformers 4 and 5.
type rotaryFields struct {
	Theta      float64         `json:"rope_theta"`
	Scaling    json.RawMessage `json:"rope_scaling"`
	Parameters json.RawMessage `json:"rope_parameters"`
	Partial    float64         `json:"partial_rotary_factor"`
}

// rotary reads the fields. partial allows that a part of a head rotates; original is the context before it was stretched,
// where config.json states it elsewhere, and context the one after.
func (f rotaryFields) rotary(partial bool, original, context int) (Rotary, error) {
	name, raw := "rope_scaling", f.Scaling // which replaces rope_parameters as a whole, as in transformers
	if len(raw) == 0 || hfconfig.Off(raw) {
		name, raw = "rope_parameters", f.Parameters
	}
	r := Rotary{Theta: f.Theta, Partial: f.Partial}
	if len(raw) == 0 || hfconfig.Off(raw) {
		return r.narrowed(name, partial)
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
		longFields
		yarnFields
	}{Theta: f.Theta, Partial: f.Partial}
	if err := hfconfig.Decode(raw, &p); err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	p.Type = cmp.Or(p.Type, p.OldType)
	if r.Theta, r.Partial = p.Theta, p.Partial; p.Partial == 0 && f.Partial != 0 {
		return r, fmt.Errorf("%s: partial_rotary_factor: 0 is not supported", name)
	}
	if original > 0 { // what config.json states elsewhere goes first
		p.Original = original
	}
	if p.Type != "longrope" && (len(p.Short) > 0 || len(p.Long) > 0) ||
		p.Type != "longrope" && p.Type != "yarn" && p.Magnitude != 0 || p.Type != "yarn" && p.yarnFields != (yarnFields{}) {
		return r, quote.Errorf("%s: rope_type: %q has no short_factor, long_factor, attention_factor, beta_fast, beta_slow, mscale or truncate "+
			"besides its own fields", name, p.Type)
	}
	switch p.Type {
	case "", "default":
	case "dynamic": // stretches beyond max_position_embeddings, which are not passed here
	case "yarn":
		p.Original = cmp.Or(p.Original, context)
		r = p.yarnFields.rotary(r, p.Factor, p.Original, context, p.Magnitude)
	case "linear":
		r.Scaling, r.Factor = p.Type, p.Factor
	case "llama3":
		r.Scaling, r.Factor, r.LowFactor, r.HighFactor, r.OriginalContext = p.Type, p.Factor, p.Low, p.High, p.Original
	case "longrope":
		r.Scaling, r.Short, r.Long, r.OriginalContext, r.Magnitude = p.Type, p.Short, p.Long, p.Original, p.Magnitude
		if r.Factor = p.Factor; r.Factor == 0 && r.OriginalContext > 0 {
			r.Factor = float64(context) / float64(r.OriginalContext)
		}
		if r.Magnitude == 0 {
			r.Magnitude = 1
			if r.Factor > 1 && r.OriginalContext > 1 {
				r.Magnitude = math.Sqrt(1 + math.Log(r.Factor)/math.Log(float64(r.OriginalContext)))
			}
		}
	default:
		return r, quote.Errorf("%s: rope_type: %q is not supported (default, linear, dynamic, llama3, longrope, yarn)", name, p.Type)
	}
	return r.narrowed(name, partial)
}

// longFields are the fields of "longrope".
type longFields struct {
	Short     []float64 `json:"short_factor"`
	Long      []float64 `json:"long_factor"`
	Magnitude float64   `json:"attention_factor"`
}

// yarnFields are the fields of "yarn".
type yarnFields struct {
	Fast     float64 `json:"beta_fast"`
	Slow     float64 `json:"beta_slow"`
	Scale    float64 `json:"mscale"`
	ScaleAll float64 `json:"mscale_all_dim"`
	Truncate *bool   `json:"truncate"`
}

// rotary adds the scaling to r. magnitude is attention_factor; 0 computes it.
func (f yarnFields) rotary(r Rotary, factor float64, original, context int, magnitude float64) Rotary {
	factor = cmp.Or(factor, float64(context)/float64(original))
	scale := func(by float64) float64 {
		if factor <= 1 {
			return 1
		}
		return 0.1*by*math.Log(factor) + 1
	}
	r.Scaling, r.Factor, r.OriginalContext, r.Magnitude = "yarn", factor, original, magnitude
	r.Fast, r.Slow = cmp.Or(f.Fast, 32), cmp.Or(f.Slow, 1)
	r.Exact = f.Truncate != nil && !*f.Truncate
	if magnitude == 0 {
		r.Magnitude = scale(1)
		if f.Scale != 0 && f.ScaleAll != 0 {
			r.Magnitude = scale(f.Scale) / scale(f.ScaleAll)
		}
	}
	return r
}

// planes returns the first plane, of dim/2, that "yarn" stretches in part, and the first that it stretches wholly.
func (r Rotary) planes(dim int) (low, high float64) {
	at := func(turns float64) float64 {
		return float64(dim) * math.Log(float64(r.OriginalContext)/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	if low, high = at(r.Fast), at(r.Slow); !r.Exact {
		low, high = math.Floor(low), math.Ceil(high)
	}
	if low, high = max(low, 0), min(high, float64(dim-1)); low == high {
		high += 0.001
	}
	return low, high
}

// narrowed refuses partial rotation unless partial allows it.
func (r Rotary) narrowed(name string, partial bool) (Rotary, error) {
	if r.Partial == 1 {
		r.Partial = 0
	}
	if r.Partial != 0 && !partial {
		return r, fmt.Errorf("%s: partial_rotary_factor: %g is not supported", name, r.Partial)
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
	case "longrope":
		scaling = map[string]any{"rope_type": "longrope", "factor": r.Factor, "short_factor": r.Short,
			"long_factor": r.Long, "attention_factor": r.Magnitude,
			"original_max_position_embeddings": r.OriginalContext}
	case "yarn":
		scaling = map[string]any{"rope_type": "yarn", "factor": r.Factor, "beta_fast": r.Fast, "beta_slow": r.Slow,
			"attention_factor": r.Magnitude, "truncate": !r.Exact,
			"original_max_position_embeddings": r.OriginalContext}
	}
	return r.Theta, scaling
}

func (r Rotary) check(dim int) error {
	finite := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	switch {
	case !r.rotates():
		return nil
	case !finite(r.Theta):
		return fmt.Errorf("rope_theta is %g", r.Theta)
	case r.Partial < 0 || r.Partial > 1:
		return fmt.Errorf("partial_rotary_factor is %g", r.Partial)
	case r.dim(dim)%2 != 0 || r.dim(dim) == 0:
		return fmt.Errorf("rotary positions need an even number of rotated dimensions of a head, not %d", r.dim(dim))
	case r.Scaling == "longrope" && (len(r.Short) != r.dim(dim)/2 || len(r.Long) != len(r.Short)):
		return fmt.Errorf("the rotary scaling longrope has %d and %d factors, must be %d", len(r.Short), len(r.Long),
			r.dim(dim)/2)
	case r.Scaling == "longrope" &&
		(slices.ContainsFunc(slices.Concat(r.Short, r.Long), func(x float64) bool { return !finite(x) }) ||
			!finite(r.Magnitude) || r.OriginalContext < 1):
		return fmt.Errorf("the rotary scaling longrope has short_factor %v, long_factor %v, attention_factor %g, "+
			"original_max_position_embeddings %d", r.Short, r.Long, r.Magnitude, r.OriginalContext)
	case r.Scaling != "" && !finite(r.Factor):
		return fmt.Errorf("the rotary scaling's factor is %g", r.Factor)
	case r.Scaling == "yarn" && !(finite(r.Magnitude) && finite(r.Fast) && finite(r.Slow) && r.OriginalContext > 0 &&
		r.Theta > 1):
		return fmt.Errorf("the rotary scaling yarn has attention_factor %g, beta_fast %g, beta_slow %g, "+
			"original_max_position_embeddings %d, rope_theta %g", r.Magnitude, r.Fast, r.Slow, r.OriginalContext, r.Theta)
	case r.Scaling == "llama3" && !(finite(r.LowFactor) && finite(r.HighFactor) && r.HighFactor > r.LowFactor &&
		r.OriginalContext > 0):
		return fmt.Errorf("the rotary scaling llama3 has low_freq_factor %g, high_freq_factor %g, "+
			"original_max_position_embeddings %d", r.LowFactor, r.HighFactor, r.OriginalContext)
	}
	return nil
}

// frequencies returns f(0) … f(dim/2-1), rounded to float32 where the reference rounds, of a head's rotated dimensions.
func (r Rotary) frequencies(head int) []float32 {
	dim := r.dim(head)
	out := make([]float32, dim/2)
	low, high := 0.0, 1.0
	if r.Scaling == "yarn" {
		low, high = r.planes(dim)
	}
	for i := range out {
		power := float32(math.Pow(r.Theta, float64(float32(2*i)/float32(dim))))
		f := float64(1 / power)
		switch r.Scaling {
		case "linear":
			f /= r.Factor
		case "longrope":
			f = float64(1 / (float32(r.Short[i]) * power))
		case "yarn":
			kept := 1 - min(1, max(0, (float32(i)-float32(low))/float32(high-low)))
			f = float64(1/(float32(r.Factor)*power)*(1-kept) + 1/power*kept)
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

// rotations are the rotations of the layers: of all but local ones, and of these.
type rotations struct{ full, local rotation }

// of is the rotation of a layer.
func (r rotations) of(a *attention) rotation {
	switch {
	case a.unturned:
		return rotation{}
	case a.local:
		return r.local
	}
	return r.full
}

// frequencies are the frequencies of rotary positions, float32 [half as many as rotated dimensions of a head]: of full
// layers and of local ones, where these have their own; none without.
type frequencies struct{ full, local tensor.Tensor }

func newFrequencies(s *tensor.Scope, c Config) (f frequencies) {
	keep := func(r Rotary) tensor.Tensor {
		list := r.frequencies(c.HeadDim())
		return s.Keep(s.FromFloat32(list, int64(len(list))))
	}
	if c.Rotary.rotates() {
		f.full = keep(c.Rotary)
	}
	if c.LocalTheta != 0 {
		f.local = keep(Rotary{Theta: c.LocalTheta})
	}
	return f
}

// rotations computes the tables for the positions of in, in float32, and gives them the type d.
func (m *Model) rotations(s *tensor.Scope, in Input, d tensor.DType) rotations {
	table := func(frequencies tensor.Tensor, magnitude float64) (r rotation) {
		if !frequencies.Defined() {
			return r
		}
		positions := in.Positions
		if !positions.Defined() {
			t := in.IDs.Size(1)
			positions = s.View(s.Arange(0, t), 1, t)
		}
		angles := s.Mul(s.Unsqueeze(s.To(positions, tensor.Float32), 2), frequencies) // [B, T, D/2]
		cos, sin := s.Cos(angles), s.Sin(angles)
		if magnitude != 0 {
			cos, sin = s.MulScalar(cos, magnitude), s.MulScalar(sin, magnitude)
		}
		return rotation{cos: s.To(s.Unsqueeze(s.Cat(2, cos, cos), 2), d), sin: s.To(s.Unsqueeze(s.Cat(2, s.Neg(sin), sin), 2), d)}
	}
	return rotations{table(m.rotary.full, m.Config.Rotary.Magnitude), table(m.rotary.local, 0)}
}

// apply rotates the heads x [B, T, heads, D], or as many of their first dimensions as the tables have.
func (t rotation) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	if !t.cos.Defined() {
		return x
	}
	width, n := x.Size(3), t.cos.Size(3)
	rotated, half := x, n/2
	if n < width {
		rotated = s.Narrow(x, 3, 0, n)
	}
	swapped := s.Cat(3, s.Narrow(x, 3, half, half), s.Narrow(x, 3, 0, half))
	y := s.Add(s.Mul(rotated, t.cos), s.Mul(swapped, t.sin))
	if n < width {
		y = s.Cat(3, y, s.Narrow(x, 3, n, width-n))
	}
	return y
}
