package lm

import "popri/model/tensor"

// A norm scales each row of x [..., H] by statistics of that row.
type norm interface {
	apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor
}

// normed applies a norm, or nothing where it is nil.
func normed(s *tensor.Scope, n norm, x tensor.Tensor) tensor.Tensor {
	if n == nil {
		return x
	}
	return n.apply(s, x)
}

// layerNorm is (x - mean)/√(variance + eps) · weight + bias (Ba et al. 2016).
type layerNorm struct {
	of           *weights
	weight, bias string
	eps          float64
}

func (n layerNorm) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	return s.LayerNorm(x, n.of.vector(n.weight), n.of.vector(n.bias), n.eps)
}

// rmsNorm is x/√(mean of squares + eps) · weight (Zhang and Sennrich 2019), in float32: in bfloat16, the reference of
// some architectures rounds before it multiplies with the weight, too.
type rmsNorm struct {
	of     *weights
	weight string
	eps    float64
	offset bool // the factor is 1 + weight
}

func (n rmsNorm) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	return s.RMSNorm(s.Contiguous(x), n.factor(s), n.eps)
}

func (n rmsNorm) factor(s *tensor.Scope) tensor.Tensor {
	w := s.To(n.of.vector(n.weight), tensor.Float32)
	if n.offset {
		w = s.AddScalar(w, 1)
	}
	return w
}

// scaled multiplies the result of a norm, or x where there is none, by a constant.
type scaled struct {
	norm
	factor float64
}

func (n scaled) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	return s.MulScalar(normed(s, n.norm, x), n.factor)
}
