package tensor

// #include "torch.h"
import "C"

// all reports, as a tensor of one element, whether every element is true.
func (s *Scope) all(a Tensor) Tensor { return s.unary("all", C.atg_all, a) }

// MatMul is the matrix product, batched over leading dimensions.
func (s *Scope) MatMul(a, b Tensor) Tensor { return s.binary("MatMul", C.atg_matmul, a, b) }

// addMM returns c + a·b.
func (s *Scope) addMM(c, a, b Tensor) Tensor {
	return s.result("addMM", func(out *C.tensor) { C.atg_addmm(out, c.c, a.c, b.c) }, c, a, b)
}

// Linear returns a·wᵀ + bias, for a weight stored [out, in]; bias may be the zero Tensor.
func (s *Scope) Linear(a, w, bias Tensor) Tensor {
	if bias.c == nil {
		return s.MatMul(a, s.Transpose(w, 0, 1))
	}
	return s.result("Linear", func(out *C.tensor) { C.atg_linear(out, a.c, w.c, bias.c) }, a, w, bias)
}

// portableLayerNorm is [Scope.LayerNorm].
func (s *Scope) portableLayerNorm(a, weight, bias Tensor, eps float64) Tensor {
	n := C.int64_t(a.Size(-1))
	return s.result("LayerNorm", func(out *C.tensor) {
		C.atg_layer_norm(out, a.c, &n, 1, weight.c, bias.c, C.double(eps), 1)
	}, a, weight, bias)
}

// Embedding takes the rows of weight that ids name.
func (s *Scope) Embedding(weight, ids Tensor) Tensor {
	return s.result("Embedding", func(out *C.tensor) { C.atg_embedding(out, weight.c, ids.c, -1, 0, 0) }, weight, ids)
}

// Softmax normalises dimension dim.
func (s *Scope) Softmax(a Tensor, dim int) Tensor {
	return s.result("Softmax", func(out *C.tensor) { C.atg_softmax(out, a.c, C.int64_t(dim), C.int(a.DType())) }, a)
}

// Sum adds all elements.
func (s *Scope) Sum(a Tensor) Tensor {
	return s.result("Sum", func(out *C.tensor) { C.atg_sum(out, a.c, C.int(a.DType())) }, a)
}

// MeanDim averages over dimension dim, which stays with size 1.
func (s *Scope) MeanDim(a Tensor, dim int) Tensor {
	d := C.int64_t(dim)
	return s.result("MeanDim", func(out *C.tensor) { C.atg_mean_dim(out, a.c, &d, 1, 1, C.int(a.DType())) }, a)
}

// Gather picks along dimension dim the elements that index names.
func (s *Scope) Gather(a Tensor, dim int, index Tensor) Tensor {
	return s.result("Gather", func(out *C.tensor) { C.atg_gather(out, a.c, C.int64_t(dim), index.c, 0) }, a, index)
}

// IndexSelect takes along dimension dim the slices that index names.
func (s *Scope) IndexSelect(a Tensor, dim int, index Tensor) Tensor {
	return s.result("IndexSelect", func(out *C.tensor) {
		C.atg_index_select(out, a.c, C.int64_t(dim), index.c)
	}, a, index)
}
