package tensor

// #include <stdlib.h>
// #include "torch.h"
import "C"

import "unsafe"

// Contiguous returns t in row-major memory, t itself if it is contiguous.
func (s *Scope) Contiguous(a Tensor) Tensor { return s.unary("Contiguous", C.atg_contiguous, a) }

// Clone copies a into new memory, without its history.
func (s *Scope) Clone(a Tensor) Tensor {
	out := s.Empty(a.DType(), a.Shape()...)
	s.NoGrad(func() { s.Copy_(out, a) })
	return out
}

// View gives a another shape over the same memory; one size may be -1.
func (s *Scope) View(a Tensor, shape ...int64) Tensor {
	dims, n := cdims(shape)
	return s.result("View", func(out *C.tensor) { C.atg_view(out, a.c, dims, C.int(n)) }, a)
}

// Reshape is [Scope.View] that copies if necessary.
func (s *Scope) Reshape(a Tensor, shape ...int64) Tensor {
	dims, n := cdims(shape)
	return s.result("Reshape", func(out *C.tensor) { C.atg_reshape(out, a.c, dims, C.int(n)) }, a)
}

// Permute reorders the dimensions.
func (s *Scope) Permute(a Tensor, order ...int64) Tensor {
	dims, n := cdims(order)
	return s.result("Permute", func(out *C.tensor) { C.atg_permute(out, a.c, dims, C.int(n)) }, a)
}

// Transpose swaps two dimensions.
func (s *Scope) Transpose(a Tensor, i, j int) Tensor {
	return s.result("Transpose", func(out *C.tensor) { C.atg_transpose(out, a.c, C.int64_t(i), C.int64_t(j)) }, a)
}

// Unsqueeze inserts a dimension of size 1.
func (s *Scope) Unsqueeze(a Tensor, dim int) Tensor {
	return s.result("Unsqueeze", func(out *C.tensor) { C.atg_unsqueeze(out, a.c, C.int64_t(dim)) }, a)
}

// Narrow is the slice [start, start+length) of dimension dim, over the same memory.
func (s *Scope) Narrow(a Tensor, dim int, start, length int64) Tensor {
	return s.result("Narrow", func(out *C.tensor) {
		C.atg_narrow(out, a.c, C.int64_t(dim), C.int64_t(start), C.int64_t(length))
	}, a)
}

// Select is slice i of dimension dim, which disappears.
func (s *Scope) Select(a Tensor, dim int, i int64) Tensor {
	return s.result("Select", func(out *C.tensor) { C.atg_select(out, a.c, C.int64_t(dim), C.int64_t(i)) }, a)
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
	return s.result("Cat", func(out *C.tensor) {
		C.atg_cat(out, handles(parts), C.int(len(parts)), C.int64_t(dim))
	}, parts...)
}

func handles(ts []Tensor) *C.tensor { return (*C.tensor)(unsafe.Pointer(unsafe.SliceData(ts))) }
