package lm

import "popri/model/tensor"

// A norm scales each row of x [..., H] by statistics of that row.
type norm interface {
	apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor
	// decode is apply without gradients, which may round differently.
	decode(s *tensor.Scope, x tensor.Tensor) tensor.Tensor
}

// layerNorm is (x - mean)/√(variance + eps) · weight + bias (Ba et al. 2016).
type layerNorm struct {
	m            *Model
	weight, bias string
	eps          float64
}

func (n layerNorm) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	return s.LayerNorm(x, s.To(n.m.params[n.weight], x.DType()), s.To(n.m.params[n.bias], x.DType()), n.eps)
}

func (n layerNorm) decode(s *tensor.Scope, x tensor.Tensor) tensor.Tensor { return n.apply(s, x) }

// rmsNorm is x/√(mean of squares + eps) · weight (Zhang and Sennrich 2019), the division in float32.
type rmsNorm struct {
	m      *Model
	weight string
	eps    float64
}

func (n rmsNorm) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	wide := s.To(x, tensor.Float32)
	scale := s.Rsqrt(s.AddScalar(s.MeanDim(s.Square(wide), -1), n.eps))
	return s.Mul(s.To(s.Mul(wide, scale), x.DType()), s.To(n.m.params[n.weight], x.DType()))
}

func (n rmsNorm) decode(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	return s.RMSNorm(s.Contiguous(x), n.m.params[n.weight], n.eps)
}
