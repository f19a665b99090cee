package tensor

// #include "torch.h"
import "C"

import (
	"cmp"
	"fmt"
	"unsafe"

	"popri/internal/numeric"
)

// DType is the type of a tensor's elements, numbered as libtorch does.
type DType int

// The types that popri uses.
const (
	Uint8    DType = 0
	Int64    DType = 4
	Float16  DType = 5
	Float32  DType = 6
	Float64  DType = 7
	Bool     DType = 11
	BFloat16 DType = 15
)

// dtypes are the types' names and the bytes of an element.
var dtypes = map[DType]struct {
	name string
	size int
}{Uint8: {"uint8", 1}, Int64: {"int64", 8}, Float16: {"float16", 2}, Float32: {"float32", 4}, Float64: {"float64", 8},
	Bool: {"bool", 1}, BFloat16: {"bfloat16", 2}}

func (d DType) String() string { return cmp.Or(dtypes[d].name, fmt.Sprintf("dtype%d", int(d))) }

// Size returns the bytes of one element.
func (d DType) Size() int { return cmp.Or(dtypes[d].size, 8) }

// Shape returns the sizes of t's dimensions.
func (t Tensor) Shape() []int64 {
	n := int(C.at_dim(t.c))
	if n == 0 {
		return []int64{}
	}
	shape := make([]int64, n)
	C.at_shape(t.c, (*C.int64_t)(unsafe.Pointer(&shape[0])))
	return shape
}

// Size returns the size of dimension dim; negative dim counts from the end.
func (t Tensor) Size(dim int) int64 {
	shape := t.Shape()
	if dim < 0 {
		dim += len(shape)
	}
	return shape[dim]
}

// NumElements returns the product of the sizes.
func (t Tensor) NumElements() int64 { return numeric.Product(t.Shape()) }

// DType returns the type of t's elements.
func (t Tensor) DType() DType { return DType(C.at_scalar_type(t.c)) }

// RequiresGrad reports whether operations on t are recorded.
func (t Tensor) RequiresGrad() bool { return C.at_requires_grad(t.c) == 1 }

func cdims(shape []int64) (*C.int64_t, C.size_t) {
	if len(shape) == 0 {
		return nil, 0
	}
	return (*C.int64_t)(unsafe.Pointer(&shape[0])), C.size_t(len(shape))
}

// onCPU copies n elements at p into a new tensor on the CPU.
func (s *Scope) onCPU(op string, p unsafe.Pointer, n int, shape []int64, d DType) Tensor {
	if numeric.Product(shape) != int64(n) {
		panic(&Error{Op: op, Shapes: []string{fmt.Sprint(shape)}, Text: fmt.Sprintf("%d values do not fill the shape", n)})
	}
	dims, ndims := cdims(shape)
	if n == 0 {
		return s.result(op, func(out *C.tensor) { C.atg_empty(out, dims, C.int(ndims), C.int(d), C.int(CPU)) })
	}
	return s.own(op, C.at_tensor_of_data(p, dims, ndims, C.size_t(d.Size()), C.int(d)))
}

// fromData is onCPU on the scope's device.
func (s *Scope) fromData(op string, p unsafe.Pointer, n int, shape []int64, d DType) Tensor {
	t := s.onCPU(op, p, n, shape, d)
	if s.device == CPU {
		return t
	}
	return s.result(op, func(out *C.tensor) { C.atg_to(out, t.c, C.int(s.device)) }, t)
}

// FromFloat32 copies data into a new tensor of the given shape.
func (s *Scope) FromFloat32(data []float32, shape ...int64) Tensor {
	return s.fromData("FromFloat32", unsafe.Pointer(unsafe.SliceData(data)), len(data), shape, Float32)
}

// fromFloat64 copies data into a new tensor of the given shape.
func (s *Scope) fromFloat64(data []float64, shape ...int64) Tensor {
	return s.fromData("fromFloat64", unsafe.Pointer(unsafe.SliceData(data)), len(data), shape, Float64)
}

// FromInt64 copies data into a new tensor of the given shape.
func (s *Scope) FromInt64(data []int64, shape ...int64) Tensor {
	return s.fromData("FromInt64", unsafe.Pointer(unsafe.SliceData(data)), len(data), shape, Int64)
}

// FromBytes copies raw little-endian elements of type d into a new tensor.
func (s *Scope) FromBytes(d DType, data []byte, shape ...int64) Tensor {
	if len(data)%d.Size() != 0 {
		panic(&Error{Op: "FromBytes", Shapes: []string{fmt.Sprint(shape)},
			Text: fmt.Sprintf("%d bytes are no whole number of %v", len(data), d)})
	}
	return s.fromData("FromBytes", unsafe.Pointer(unsafe.SliceData(data)), len(data)/d.Size(), shape, d)
}

// FromBools copies data into a new tensor of the given shape.
func (s *Scope) FromBools(data []bool, shape ...int64) Tensor {
	return s.fromData("FromBools", unsafe.Pointer(unsafe.SliceData(data)), len(data), shape, Bool)
}

// Zeros makes a tensor of zeros.
func (s *Scope) Zeros(d DType, shape ...int64) Tensor {
	dims, n := cdims(shape)
	return s.result("Zeros", func(out *C.tensor) { C.atg_zeros(out, dims, C.int(n), C.int(d), C.int(s.device)) })
}

// Empty makes a tensor with undefined elements.
func (s *Scope) Empty(d DType, shape ...int64) Tensor {
	dims, n := cdims(shape)
	return s.result("Empty", func(out *C.tensor) { C.atg_empty(out, dims, C.int(n), C.int(d), C.int(s.device)) })
}

// Full makes a tensor whose elements are all v.
func (s *Scope) Full(d DType, v float64, shape ...int64) Tensor {
	dims, n := cdims(shape)
	k := C.ats_float(C.double(v))
	defer C.ats_free(k)
	return s.result("Full", func(out *C.tensor) { C.atg_full(out, dims, C.int(n), k, C.int(d), C.int(s.device)) })
}

// Normal draws a tensor of type d from a normal distribution with mean 0, where the scope's tensors are, by libtorch's
// generator, which a seed begins again.
func (s *Scope) Normal(d DType, std float64, seed int64, shape ...int64) Tensor {
	x := s.Empty(d, shape...)
	C.at_manual_seed(C.int64_t(seed))
	return s.result("Normal", func(out *C.tensor) { C.atg_normal_(out, x.c, 0, C.double(std)) }, x)
}

// Arange makes the int64 vector from, from+1, …, to-1.
func (s *Scope) Arange(from, to int64) Tensor {
	a, b := C.ats_int(C.int64_t(from)), C.ats_int(C.int64_t(to))
	defer C.ats_free(a)
	defer C.ats_free(b)
	return s.result("Arange", func(out *C.tensor) { C.atg_arange_start(out, a, b, C.int(Int64), C.int(s.device)) })
}

// copyOut copies the elements of t, as type d, which E must be, too.
func copyOut[E float32 | float64 | int64](s *Scope, op string, t Tensor, d DType) []E {
	out := make([]E, t.NumElements())
	if len(out) == 0 {
		return out
	}
	s.Do(func() {
		x := s.Contiguous(s.To(s.Detach(t), d))
		C.at_copy_data(x.c, unsafe.Pointer(unsafe.SliceData(out)), C.size_t(len(out)), C.size_t(d.Size()))
		s.check(op, t)
	})
	return out
}

// Float32s copies t's elements out in row-major order.
func (s *Scope) Float32s(t Tensor) []float32 { return copyOut[float32](s, "Float32s", t, Float32) }

// Float64s copies t's elements out in row-major order.
func (s *Scope) Float64s(t Tensor) []float64 { return copyOut[float64](s, "Float64s", t, Float64) }

// Int64s copies t's elements out in row-major order.
func (s *Scope) Int64s(t Tensor) []int64 { return copyOut[int64](s, "Int64s", t, Int64) }

// view32 returns t's memory as a slice without a copy. t must be a contiguous float32 tensor on the CPU and must
// outlive the slice.
func (t Tensor) view32() []float32 {
	if t.DType() != Float32 || C.at_is_contiguous(t.c) == 0 || t.device() != CPU {
		refuse("view32", "it is not a contiguous float32 tensor on the CPU", t)
	}
	n := t.NumElements()
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(C.at_data_ptr(t.c)), n)
}
