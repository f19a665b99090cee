package lm

import "popri/model/tensor"

// A norm scales each row of x [..., H] by statistics of that row.
type norm interface {
	apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor
}

// beside applies a norm, or nothing where it is nil, and returns x again for its other uses. Where the norm can, it adds
// their gradient to its own in one pass.
func beside(n norm, s *tensor.Scope, x tensor.Tensor) (y, same tensor.Tensor) {
	type joining interface {
		beside(s *tensor.Scope, x tensor.Tensor) (y, same tensor.Tensor)
	}
	if n, ok := n.(joining); ok {
		return n.beside(s, x)
	}
	return applied(n)(s, x), x
}

// layerNorm is (x - mean)/√(variance + eps) · weight + bias (Ba et al. 2016).
type layerNorm struct {
	m            *Model
	weight, bias string
	eps          float64
}

func (n layerNorm) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	y, _ := n.beside(s, x)
	return y
}

func (n layerNorm) beside(s *tensor.Scope, x tensor.Tensor) (y, same tensor.Tensor) {
	return s.LayerNormResidual(x, n.m.vector(n.weight), n.m.vector(n.bias), n.eps)
}

// rmsNorm is x/√(mean of squares + eps) · weight (Zhang and Sennrich 2019), in float32: in bfloat16, the reference of
// some architectures rounds before it multiplies with the weight, too.
type rmsNorm struct {
	m      *Model
	weight string
	eps    float64
	offset bool // the factor is 1 + weight
}

func (n rmsNorm) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	y, _ := n.beside(s, x)
	return y
}

func (n rmsNorm) beside(s *tensor.Scope, x tensor.Tensor) (y, same tensor.Tensor) {
	w := s.To(n.m.vector(n.weight), tensor.Float32)
	if n.offset {
		w = s.AddScalar(w, 1)
	}
	return s.RMSNormResidual(s.Contiguous(x), w, n.eps)
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
