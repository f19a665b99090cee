package tensor

// #include <stdlib.h>
// #include "torch.h"
// static char tanh_name[] = "tanh";
// static char none_name[] = "none";
// static void gelu_tanh(tensor *out, tensor x) { atg_gelu(out, x, tanh_name, 4); }
// static void gelu_erf(tensor *out, tensor x) { atg_gelu(out, x, none_name, 4); }
import "C"

import (
	"fmt"
	"unsafe"
)

// Abs applies it element by element.
func (s *Scope) Abs(a Tensor) Tensor {
	var out C.tensor
	C.atg_abs(&out, a.c)
	return s.own("Abs", out, a)
}

// Neg applies it element by element.
func (s *Scope) Neg(a Tensor) Tensor {
	var out C.tensor
	C.atg_neg(&out, a.c)
	return s.own("Neg", out, a)
}

// Exp applies it element by element.
func (s *Scope) Exp(a Tensor) Tensor {
	var out C.tensor
	C.atg_exp(&out, a.c)
	return s.own("Exp", out, a)
}

// Log applies it element by element.
func (s *Scope) Log(a Tensor) Tensor {
	var out C.tensor
	C.atg_log(&out, a.c)
	return s.own("Log", out, a)
}

// Cos applies it element by element.
func (s *Scope) Cos(a Tensor) Tensor {
	var out C.tensor
	C.atg_cos(&out, a.c)
	return s.own("Cos", out, a)
}

// Sin applies it element by element.
func (s *Scope) Sin(a Tensor) Tensor {
	var out C.tensor
	C.atg_sin(&out, a.c)
	return s.own("Sin", out, a)
}

// Sqrt applies it element by element.
func (s *Scope) Sqrt(a Tensor) Tensor {
	var out C.tensor
	C.atg_sqrt(&out, a.c)
	return s.own("Sqrt", out, a)
}

// Rsqrt applies it element by element.
func (s *Scope) Rsqrt(a Tensor) Tensor {
	var out C.tensor
	C.atg_rsqrt(&out, a.c)
	return s.own("Rsqrt", out, a)
}

// Square applies it element by element.
func (s *Scope) Square(a Tensor) Tensor {
	var out C.tensor
	C.atg_square(&out, a.c)
	return s.own("Square", out, a)
}

// Silu applies it element by element.
func (s *Scope) Silu(a Tensor) Tensor {
	var out C.tensor
	C.atg_silu(&out, a.c)
	return s.own("Silu", out, a)
}

// Contiguous returns t in row-major memory, itself if it is so already.
func (s *Scope) Contiguous(a Tensor) Tensor {
	var out C.tensor
	C.atg_contiguous(&out, a.c)
	return s.own("Contiguous", out, a)
}

// Detach returns t without its history.
func (s *Scope) Detach(a Tensor) Tensor {
	var out C.tensor
	C.atg_detach(&out, a.c)
	return s.own("Detach", out, a)
}

// All reports, as a tensor of one element, whether every element is true.
func (s *Scope) All(a Tensor) Tensor {
	var out C.tensor
	C.atg_all(&out, a.c)
	return s.own("All", out, a)
}

// Add is element by element, with broadcasting.
func (s *Scope) Add(a, b Tensor) Tensor {
	var out C.tensor
	C.atg_add(&out, a.c, b.c)
	return s.own("Add", out, a, b)
}

// Sub is element by element, with broadcasting.
func (s *Scope) Sub(a, b Tensor) Tensor {
	var out C.tensor
	C.atg_sub(&out, a.c, b.c)
	return s.own("Sub", out, a, b)
}

// Mul is element by element, with broadcasting.
func (s *Scope) Mul(a, b Tensor) Tensor {
	var out C.tensor
	C.atg_mul(&out, a.c, b.c)
	return s.own("Mul", out, a, b)
}

// MatMul is the matrix product, batched over leading dimensions.
func (s *Scope) MatMul(a, b Tensor) Tensor {
	var out C.tensor
	C.atg_matmul(&out, a.c, b.c)
	return s.own("MatMul", out, a, b)
}

// AddScalar adds k to every element.
func (s *Scope) AddScalar(a Tensor, k float64) Tensor {
	var out C.tensor
	v := C.ats_float(C.double(k))
	C.atg_add_scalar(&out, a.c, v)
	C.ats_free(v)
	return s.own("AddScalar", out, a)
}

// MulScalar multiplies every element by k.
func (s *Scope) MulScalar(a Tensor, k float64) Tensor {
	var out C.tensor
	v := C.ats_float(C.double(k))
	C.atg_mul_scalar(&out, a.c, v)
	C.ats_free(v)
	return s.own("MulScalar", out, a)
}

// GeluTanh is GELU with the tanh approximation (GPT-2's gelu_new).
func (s *Scope) GeluTanh(a Tensor) Tensor {
	var out C.tensor
	C.gelu_tanh(&out, a.c)
	return s.own("GeluTanh", out, a)
}

// Gelu is the exact GELU, with the error function.
func (s *Scope) Gelu(a Tensor) Tensor {
	var out C.tensor
	C.gelu_erf(&out, a.c)
	return s.own("Gelu", out, a)
}

// AddMM returns c + a·b.
func (s *Scope) AddMM(c, a, b Tensor) Tensor {
	var out C.tensor
	C.atg_addmm(&out, c.c, a.c, b.c)
	return s.own("AddMM", out, c, a, b)
}

// Linear returns a·wᵀ + bias, for a weight stored [out, in]; bias may be the zero Tensor.
func (s *Scope) Linear(a, w, bias Tensor) Tensor {
	var out C.tensor
	if bias.c == nil {
		return s.MatMul(a, s.Transpose(w, 0, 1))
	}
	C.atg_linear(&out, a.c, w.c, bias.c)
	return s.own("Linear", out, a, w, bias)
}

// LayerNorm normalises the last dimension of a, then scales by weight and shifts by bias.
func (s *Scope) LayerNorm(a, weight, bias Tensor, eps float64) Tensor {
	var out C.tensor
	n := C.int64_t(a.Size(-1))
	C.atg_layer_norm(&out, a.c, &n, 1, weight.c, bias.c, C.double(eps), 1)
	return s.own("LayerNorm", out, a, weight, bias)
}

// Embedding takes the rows of weight that ids name.
func (s *Scope) Embedding(weight, ids Tensor) Tensor {
	var out C.tensor
	C.atg_embedding(&out, weight.c, ids.c, -1, 0, 0)
	return s.own("Embedding", out, weight, ids)
}

// Softmax normalises dimension dim.
func (s *Scope) Softmax(a Tensor, dim int) Tensor {
	var out C.tensor
	C.atg_softmax(&out, a.c, C.int64_t(dim), C.int(a.DType()))
	return s.own("Softmax", out, a)
}

// LogSumExp reduces dimension dim.
func (s *Scope) LogSumExp(a Tensor, dim int) Tensor {
	var out C.tensor
	d := C.int64_t(dim)
	C.atg_logsumexp(&out, a.c, &d, 1, 0)
	return s.own("LogSumExp", out, a)
}

// Sum adds all elements.
func (s *Scope) Sum(a Tensor) Tensor {
	var out C.tensor
	C.atg_sum(&out, a.c, C.int(a.DType()))
	return s.own("Sum", out, a)
}

// Mean averages all elements.
func (s *Scope) Mean(a Tensor) Tensor {
	var out C.tensor
	C.atg_mean(&out, a.c, C.int(a.DType()))
	return s.own("Mean", out, a)
}

// MeanDim averages over dimension dim, which stays with size 1.
func (s *Scope) MeanDim(a Tensor, dim int) Tensor {
	var out C.tensor
	d := C.int64_t(dim)
	C.atg_mean_dim(&out, a.c, &d, 1, 1, C.int(a.DType()))
	return s.own("MeanDim", out, a)
}

// Gather picks along dimension dim the elements that index names.
func (s *Scope) Gather(a Tensor, dim int, index Tensor) Tensor {
	var out C.tensor
	C.atg_gather(&out, a.c, C.int64_t(dim), index.c, 0)
	return s.own("Gather", out, a, index)
}

// IndexSelect takes along dimension dim the slices that index names.
func (s *Scope) IndexSelect(a Tensor, dim int, index Tensor) Tensor {
	var out C.tensor
	C.atg_index_select(&out, a.c, C.int64_t(dim), index.c)
	return s.own("IndexSelect", out, a, index)
}

// Where takes from a where cond is true and from b elsewhere.
func (s *Scope) Where(cond, a, b Tensor) Tensor {
	var out C.tensor
	C.atg_where_self(&out, cond.c, a.c, b.c)
	return s.own("Where", out, cond, a, b)
}

// Tril keeps the elements on and below the given diagonal.
func (s *Scope) Tril(a Tensor, diagonal int) Tensor {
	var out C.tensor
	C.atg_tril(&out, a.c, C.int64_t(diagonal))
	return s.own("Tril", out, a)
}

// To converts to another type; the same tensor where it has it already.
func (s *Scope) To(a Tensor, d DType) Tensor {
	if a.DType() == d {
		return a
	}
	var out C.tensor
	C.atg_to_dtype(&out, a.c, C.int(d), 0, 0)
	return s.own("To", out, a)
}

// Clone copies a into memory of its own, without its history.
func (s *Scope) Clone(a Tensor) Tensor {
	out := s.Empty(a.DType(), a.Shape()...)
	s.NoGrad(func() { s.Copy_(out, a) })
	return out
}

// View gives a another shape over the same memory; one size may be -1.
func (s *Scope) View(a Tensor, shape ...int64) Tensor {
	var out C.tensor
	dims, n := cdims(shape)
	C.atg_view(&out, a.c, dims, C.int(n))
	return s.own("View", out, a)
}

// Reshape is [Scope.View] that copies where it must.
func (s *Scope) Reshape(a Tensor, shape ...int64) Tensor {
	var out C.tensor
	dims, n := cdims(shape)
	C.atg_reshape(&out, a.c, dims, C.int(n))
	return s.own("Reshape", out, a)
}

// Permute reorders the dimensions.
func (s *Scope) Permute(a Tensor, order ...int64) Tensor {
	var out C.tensor
	dims, n := cdims(order)
	C.atg_permute(&out, a.c, dims, C.int(n))
	return s.own("Permute", out, a)
}

// Transpose swaps two dimensions.
func (s *Scope) Transpose(a Tensor, i, j int) Tensor {
	var out C.tensor
	C.atg_transpose(&out, a.c, C.int64_t(i), C.int64_t(j))
	return s.own("Transpose", out, a)
}

// Unsqueeze inserts a dimension of size 1.
func (s *Scope) Unsqueeze(a Tensor, dim int) Tensor {
	var out C.tensor
	C.atg_unsqueeze(&out, a.c, C.int64_t(dim))
	return s.own("Unsqueeze", out, a)
}

// Narrow is the slice [start, start+length) of dimension dim, over the same memory.
func (s *Scope) Narrow(a Tensor, dim int, start, length int64) Tensor {
	var out C.tensor
	C.atg_narrow(&out, a.c, C.int64_t(dim), C.int64_t(start), C.int64_t(length))
	return s.own("Narrow", out, a)
}

// Select is slice i of dimension dim, which disappears.
func (s *Scope) Select(a Tensor, dim int, i int64) Tensor {
	var out C.tensor
	C.atg_select(&out, a.c, C.int64_t(dim), C.int64_t(i))
	return s.own("Select", out, a)
}

// Unbind splits dimension dim into its slices.
func (s *Scope) Unbind(a Tensor, dim int) []Tensor {
	list := C.atg_unbind(a.c, C.int64_t(dim))
	if list == nil {
		s.fail("Unbind", a)
	}
	defer C.free(unsafe.Pointer(list))
	var parts []Tensor
	for _, c := range unsafe.Slice(list, a.Size(dim)) {
		parts = append(parts, s.own("Unbind", c, a))
	}
	return parts
}

// Cat joins tensors along dimension dim.
func (s *Scope) Cat(dim int, parts ...Tensor) Tensor {
	var out C.tensor
	C.atg_cat(&out, handles(parts), C.int(len(parts)), C.int64_t(dim))
	return s.own("Cat", out, parts...)
}

func handles(ts []Tensor) *C.tensor { return (*C.tensor)(unsafe.Pointer(unsafe.SliceData(ts))) }

// Copy_ overwrites dst with src, converting the type.
func (s *Scope) Copy_(dst, src Tensor) {
	C.at_copy_(dst.c, src.c)
	s.check("Copy_", dst, src)
}

// inPlace drops the second handle that in-place operations return.
func (s *Scope) inPlace(op string, out C.tensor, args ...Tensor) {
	if out == nil {
		s.fail(op, args...)
	}
	C.at_free(out)
}

// Add_ adds b to a in place.
func (s *Scope) Add_(a, b Tensor) {
	var out C.tensor
	C.atg_add_(&out, a.c, b.c)
	s.inPlace("Add_", out, a, b)
}

// IndexCopy_ overwrites the slices of dimension dim that index names with those of src.
func (s *Scope) IndexCopy_(a Tensor, dim int, index, src Tensor) {
	var out C.tensor
	C.atg_index_copy_(&out, a.c, C.int64_t(dim), index.c, src.c)
	s.inPlace("IndexCopy_", out, a, index, src)
}

// RequireGrad marks t, a leaf, as a parameter that gradients are wanted for, or no longer.
func (s *Scope) RequireGrad(t Tensor, on bool) {
	var out C.tensor
	C.atg_set_requires_grad(&out, t.c, cbool(on))
	s.inPlace("RequireGrad", out, t)
}

// Backward returns the gradients of the scalar loss with respect to params, in their order, and frees the graph.
// Every parameter must have taken part in the loss.
func (s *Scope) Backward(loss Tensor, params []Tensor) []Tensor {
	grads := s.BackwardSome(loss, params)
	for i, g := range grads {
		if !g.Defined() {
			panic(&Error{Op: "Backward", Shapes: []string{loss.describe(), params[i].describe()}, Text: fmt.Sprintf("parameter %d took no part in the loss", i)})
		}
	}
	return grads
}

// BackwardSome is [Scope.Backward] for parameters of which some took no part: their gradients are none.
func (s *Scope) BackwardSome(loss Tensor, params []Tensor) []Tensor {
	if len(params) == 0 {
		return nil
	}
	grads := make([]Tensor, len(params))
	C.at_run_backward(&[]C.tensor{loss.c}[0], 1, handles(params), C.int(len(params)), handles(grads), 0, 0)
	s.check("Backward", loss)
	for i, g := range grads {
		if C.at_defined(g.c) == 0 {
			C.at_free(g.c)
			grads[i] = Tensor{}
			continue
		}
		grads[i] = s.own("Backward", g.c, loss, params[i])
	}
	return grads
}
