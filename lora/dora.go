package lora

import "popri/model/tensor"

// DoRA (Liu et al. 2024, arXiv 2402.09353, equation 5) gives the weights of each output a length m of their own:
//
//	W' = m ∘ (W + s·B·A) / ‖W + s·B·A‖
//
// with the norm over an output's weights.

// scaledWeight is W' for a float32 weight w.
func (p *Pair) scaledWeight(s *tensor.Scope, w tensor.Tensor) tensor.Tensor {
	w = p.changed(s, w)
	inputs := 1
	if p.linear.InOut {
		inputs = 0
	}
	norm := s.Reshape(s.Sqrt(s.MulScalar(s.MeanDim(s.Square(w), inputs), float64(p.linear.In))), -1)
	f := s.Div(p.M, norm)
	if !p.linear.InOut {
		f = s.Unsqueeze(f, 1)
	}
	return s.Mul(w, f)
}
