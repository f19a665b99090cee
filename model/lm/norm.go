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
	wide   bool // the product with the weight is in float32, too
	offset bool // the factor is 1 + weight
}

// factor is the weight, in float32 if the product with it is.
func (n rmsNorm) factor(s *tensor.Scope) tensor.Tensor {
	w := n.m.params[n.weight]
	if n.wide {
		w = s.To(w, tensor.Float32)
	}
	if n.offset {
		w = s.AddScalar(w, 1)
	}
	return w
}

func (n rmsNorm) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	wide := s.To(x, tensor.Float32)
	scale := s.Rsqrt(s.AddScalar(s.MeanDim(s.Square(wide), -1), n.eps))
	if n.wide {
		return s.To(s.Mul(s.Mul(wide, scale), n.factor(s)), x.DType())
	}
	return s.Mul(s.To(s.Mul(wide, scale), x.DType()), s.To(n.factor(s), x.DType()))
}

func (n rmsNorm) decode(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	return s.RMSNorm(s.Contiguous(x), n.factor(s), n.eps)
}

// scaled multiplies the result of a norm, or x where there is none, by a constant.
type scaled struct {
	norm
	factor float64
}

func (n scaled) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	if n.norm != nil {
		x = n.norm.apply(s, x)
	}
	return s.MulScalar(x, n.factor)
}

func (n scaled) decode(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	if n.norm != nil {
		x = n.norm.decode(s, x)
	}
	return s.MulScalar(x, n.factor)
}
