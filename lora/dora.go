package lora

import "popri/model/tensor"

// DoRA (Liu et al. 2024, arXiv 2402.09353, equation 5) gives the weights of each output a trained length m:
//
//	W' = m ∘ (W + s·B·A) / ‖W + s·B·A‖
//
// with the norm over an output's weights, which counts as a constant in gradients (section 4.3). Each pass computes it
// anew, a product and a norm of each adapted weight's size.

// norm is the length of each output's weights [out] of a weight that is laid out as the projection's.
func (p *Pair) norm(s *tensor.Scope, w tensor.Tensor) tensor.Tensor {
	inputs := 1
	if p.linear.InOut {
		inputs = 0
	}
	return s.Reshape(s.Sqrt(s.MulScalar(s.MeanDim(s.Square(w), inputs), float64(p.linear.In))), -1)
}

// factor is m/‖W + s·B·A‖ [out] for the projection's weight as it is.
func (p *Pair) factor(s *tensor.Scope) tensor.Tensor {
	var norm tensor.Tensor
	s.NoGrad(func() {
		norm = s.Nest(func() tensor.Tensor { return p.norm(s, p.changed(s, s.To(p.linear.Weight(), tensor.Float32))) })
	})
	return s.Div(p.M, norm)
}

// scaled is y + (f−1)·base + f·change with the factor f, the projection's product base, without its bias, and the
// adapter's change of it.
func (p *Pair) scaled(s *tensor.Scope, base, change, y tensor.Tensor) tensor.Tensor {
	f := p.factor(s)
	more := s.Mul(base, s.To(s.AddScalar(f, -1), base.DType()))
	return s.Add(y, s.Add(more, s.Mul(change, s.To(f, change.DType()))))
}

// withoutBias is the projection's output without its bias.
func (p *Pair) withoutBias(s *tensor.Scope, y tensor.Tensor) tensor.Tensor {
	if bias := p.linear.Bias(); bias.Defined() {
		return s.Sub(y, s.To(bias, y.DType()))
	}
	return y
}

// scaledWeight is W' for a float32 weight w.
func (p *Pair) scaledWeight(s *tensor.Scope, w tensor.Tensor) tensor.Tensor {
	w = p.changed(s, w)
	f := s.Div(p.M, p.norm(s, w))
	if !p.linear.InOut {
		f = s.Unsqueeze(f, 1)
	}
	return s.Mul(w, f)
}
