package tensor

// #include "torch.h"
import "C"

import "fmt"

// Operations in one pass over memory, for decoding, without gradients.

// fusable panics unless x is a contiguous float32 or bfloat16 tensor.
func fusable(op string, x Tensor, ok bool, want string) {
	if d := x.DType(); !ok || (d != Float32 && d != BFloat16) || C.at_is_contiguous(x.c) == 0 {
		panic(&Error{Op: op, Shapes: []string{x.describe()}, Text: "it must be contiguous float32 or bfloat16, " + want})
	}
}

// RMSNorm returns x/√(mean of squares + eps)·weight over the last dimension, with float32 sums.
func (s *Scope) RMSNorm(x, weight Tensor, eps float64) Tensor {
	n := x.Size(-1)
	fusable("RMSNorm", x, weight.NumElements() == n, fmt.Sprintf("as wide as the weight's %d", weight.NumElements()))
	if !s.native("RMSNorm", x, weight) {
		return s.portableRMSNorm(x, weight, eps)
	}
	w := s.Contiguous(s.To(weight, Float32))
	y := s.Empty(x.DType(), x.Shape()...)
	C.popri_rmsnorm(C.at_data_ptr(x.c), cbool(x.DType() == BFloat16), cfloats(w.View32()), C.at_data_ptr(y.c),
		C.int64_t(x.NumElements()/n), C.int64_t(n), C.float(eps))
	return y
}

// FusedLayerNorm is [Scope.LayerNorm] without a gradient, with float32 sums, weight and bias [n] of any type.
func (s *Scope) FusedLayerNorm(x, weight, bias Tensor, eps float64) Tensor {
	n := x.Size(-1)
	fusable("FusedLayerNorm", x, weight.NumElements() == n && bias.NumElements() == n,
		fmt.Sprintf("as wide as the weight's %d and the bias's %d", weight.NumElements(), bias.NumElements()))
	if !s.native("FusedLayerNorm", x, weight, bias) {
		return s.To(s.LayerNorm(s.To(x, Float32), s.To(weight, Float32), s.To(bias, Float32), eps), x.DType())
	}
	w, b := s.Contiguous(s.To(weight, Float32)), s.Contiguous(s.To(bias, Float32))
	y := s.Empty(x.DType(), x.Shape()...)
	if x.DType() == BFloat16 && CanPack(BFloat16) {
		row := make([]float32, (n+63)/64*64)
		C.popri_layernorm_bf16((*C.uint16_t)(C.at_data_ptr(x.c)), cfloats(w.View32()), cfloats(b.View32()),
			(*C.uint16_t)(C.at_data_ptr(y.c)), C.int64_t(x.NumElements()/n), C.int64_t(n), C.float(eps), cfloats(row))
		return y
	}
	C.popri_layernorm(C.at_data_ptr(x.c), cbool(x.DType() == BFloat16), cfloats(w.View32()), cfloats(b.View32()),
		C.at_data_ptr(y.c), C.int64_t(x.NumElements()/n), C.int64_t(n), C.float(eps))
	return y
}

// SwiGLU returns silu(gate)·up for x [..., 2n] that holds gate and up side by side.
func (s *Scope) SwiGLU(x Tensor) Tensor {
	shape := x.Shape()
	n := shape[len(shape)-1] / 2
	fusable("SwiGLU", x, shape[len(shape)-1]%2 == 0, "of even width")
	if !s.native("SwiGLU", x) {
		return s.portableSwiGLU(x, n)
	}
	y := s.Empty(x.DType(), append(shape[:len(shape)-1:len(shape)-1], n)...)
	C.popri_swiglu(C.at_data_ptr(x.c), cbool(x.DType() == BFloat16), C.at_data_ptr(y.c),
		C.int64_t(y.NumElements()/max(1, n)), C.int64_t(n))
	return y
}

// Rotate_ rotates, in place, the first heads of each row of float32 x [..., width] by the row's float32 cosines and
// sines: x·cos + swap(x)·sin, where swap exchanges the halves of a head. The tables [n, dim] are for successive rows
// and repeat after n, which divides the number of rows.
func (s *Scope) Rotate_(x, cosines, sines Tensor, heads, dim int64) {
	width := x.Size(-1)
	rows := x.NumElements() / width
	angles := cosines.NumElements() / dim
	fusable("Rotate_", x, x.DType() == Float32 && dim%2 == 0 && heads*dim <= width &&
		cosines.NumElements() == angles*dim && sines.NumElements() == angles*dim && angles > 0 && rows%angles == 0,
		fmt.Sprintf("with tables for %d heads of %d", heads, dim))
	if !s.native("Rotate_", x, cosines, sines) {
		s.portableRotate(s.View(x, -1, angles, width), cosines, sines, heads, dim)
		return
	}
	C.popri_rotate(cfloats(x.View32()), cfloats(cosines.View32()), cfloats(sines.View32()), C.int64_t(rows),
		C.int64_t(angles), C.int64_t(width), C.int64_t(heads), C.int64_t(dim))
}
