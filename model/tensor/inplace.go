package tensor

// #include "torch.h"
import "C"

import "slices"

// Copy_ overwrites dst with src, converting the type.
func (s *Scope) Copy_(dst, src Tensor) {
	C.at_copy_(dst.c, src.c)
	s.check("Copy_", dst, src)
}

// Add_ adds b to a in place.
func (s *Scope) Add_(a, b Tensor) {
	// The library waits for memory, and first makes a float32 copy of b where that is bfloat16.
	if d := b.DType(); a.DType() == Float32 && (d == Float32 || d == BFloat16) && !a.RequiresGrad() &&
		!b.RequiresGrad() && s.native("Add_", a, b) &&
		slices.Equal(a.Shape(), b.Shape()) && C.at_is_contiguous(a.c) != 0 && C.at_is_contiguous(b.c) != 0 {
		C.popri_add(a.floats(), b.pointer(), cbool(d == BFloat16), C.int64_t(a.NumElements()))
		return
	}
	s.inPlace("Add_", func(out *C.tensor) { C.atg_add_(out, a.c, b.c) }, a, b)
}

// AddMM_ adds the product of the matrices a and b to sum in place. The three have one type.
func (s *Scope) AddMM_(sum, a, b Tensor) {
	s.inPlace("AddMM_", func(out *C.tensor) { C.atg_addmm_(out, sum.c, a.c, b.c) }, sum, a, b)
}

// IndexAdd_ adds the slices of src to the slices of dimension dim that index names, which may name one several times.
func (s *Scope) IndexAdd_(a Tensor, dim int, index, src Tensor) {
	s.inPlace("IndexAdd_", func(out *C.tensor) {
		C.atg_index_add_(out, a.c, C.int64_t(dim), index.c, src.c)
	}, a, index, src)
}

// IndexCopy_ overwrites the slices of dimension dim that index names with the slices of src.
func (s *Scope) IndexCopy_(a Tensor, dim int, index, src Tensor) {
	s.inPlace("IndexCopy_", func(out *C.tensor) {
		C.atg_index_copy_(out, a.c, C.int64_t(dim), index.c, src.c)
	}, a, index, src)
}
