package tensor

// #include "torch.h"
import "C"

import (
	"fmt"
	"slices"
	"unsafe"
)

// Borrow makes a tensor over data without a copy, on the CPU whatever the scope's device is; [Scope.Copy_] copies it
// elsewhere. data is raw little-endian elements of type d outside Go's heap, such as a mapped file; it must outlive the
// tensor, which must not be written to. Data that is not aligned for d is copied.
func (s *Scope) Borrow(d DType, data []byte, shape ...int64) Tensor {
	want := int64(d.Size())
	strides := make([]int64, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = want / int64(d.Size())
		want *= shape[i]
	}
	if want != int64(len(data)) {
		panic(&Error{Op: "Borrow", Shapes: []string{fmt.Sprint(shape)},
			Text: fmt.Sprintf("%d bytes of %v do not fill the shape", len(data), d)})
	}
	p := unsafe.Pointer(unsafe.SliceData(data))
	if len(data) == 0 || uintptr(p)%uintptr(d.Size()) != 0 {
		return s.onCPU("Borrow", p, len(data)/d.Size(), shape, d)
	}
	dims, n := cdims(shape)
	steps, _ := cdims(strides)
	return s.own("Borrow", C.at_tensor_of_blob(p, dims, n, steps, n, C.int(d), C.int(CPU)))
}

// Finite reports whether no element of t, a contiguous floating-point tensor, is NaN or infinite.
func (s *Scope) Finite(t Tensor) bool {
	// A float is NaN or infinite exactly if its exponent bits are all ones.
	exponents := map[DType]uint64{Float16: 0x7c00, BFloat16: 0x7f80, Float32: 0x7f800000, Float64: 0x7ff0000000000000}
	d := t.DType()
	exponent, ok := exponents[d]
	if !ok || C.at_is_contiguous(t.c) == 0 {
		refuse("Finite", "it is not a contiguous floating-point tensor", t)
	}
	if !s.native("Finite", t) {
		return s.portableFinite(t)
	}
	n, size := t.NumElements(), d.Size()
	if n == 0 {
		return true
	}
	p := C.at_data_ptr(t.c)
	const part = 1 << 20
	parts := int((n + part - 1) / part)
	bad := make([]bool, parts)
	s.parallel(parts, func(from, to int) {
		for i := from; i < to; i++ {
			at := int64(i) * part
			bad[i] = C.popri_not_finite(unsafe.Add(p, at*int64(size)), C.int64_t(min(part, n-at)), C.int(size),
				C.uint64_t(exponent)) != 0
		}
	})
	return !slices.Contains(bad, true)
}
