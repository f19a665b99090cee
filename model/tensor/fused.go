package tensor

// #include "torch.h"
import "C"

import (
	"fmt"
	"slices"
	"unsafe"
)

// Operations in one pass over memory.

// fusable panics unless x is a contiguous float32 or bfloat16 tensor.
func fusable(op string, x Tensor, ok bool, want string) {
	if d := x.DType(); !ok || (d != Float32 && d != BFloat16) || C.at_is_contiguous(x.c) == 0 {
		refuse(op, "it must be contiguous float32 or bfloat16, "+want, x)
	}
}

// RMSNorm returns x/√(mean of squares + eps)·weight over the last dimension, with float32 sums. It has a gradient.
func (s *Scope) RMSNorm(x, weight Tensor, eps float64) Tensor {
	y, _ := s.RMSNormResidual(x, weight, eps)
	return y
}

// RMSNormResidual is [Scope.RMSNorm], and returns x again for the residual connection, whose gradient is added to the
// norm's in one pass.
func (s *Scope) RMSNormResidual(x, weight Tensor, eps float64) (y, same Tensor) {
	n := x.Size(-1)
	fusable("RMSNorm", x, weight.NumElements() == n, fmt.Sprintf("as wide as the weight's %d", weight.NumElements()))
	if !s.fused("RMSNorm", x, weight) {
		return s.portableRMSNorm(x, weight, eps), x
	}
	return s.norm(stepRMSNorm, rmsNormKernel, x, s.Contiguous(s.To(weight, Float32)), Tensor{}, eps)
}

// norm runs the kernel k of the step op, with a float32 weight and bias, which may be none.
func (s *Scope) norm(op int, k kernel, x, weight, bias Tensor, eps float64) (y, same Tensor) {
	n := x.Size(-1)
	y, same = s.Empty(x.DType(), x.Shape()...), s.passThrough(x)
	p := C.popri_rows{bf16: cbool(x.DType() == BFloat16), eps: C.float(eps), n: C.int64_t(n), w: weight.floats(),
		b: bias.floats(), x: C.at_data_ptr(x.c), y: C.at_data_ptr(y.c)}
	s.shared(k, unsafe.Pointer(&p), x.NumElements()/n, n)
	inputs := []Tensor{x, weight}
	if bias.Defined() {
		inputs = append(inputs, bias)
	}
	s.record(step{op: op, numbers: []float64{eps}, saved: []Tensor{x, weight}, inputs: inputs, outputs: []Tensor{y, same}})
	return y, same
}

// passThrough is x as a further output of a step.
func (s *Scope) passThrough(x Tensor) Tensor {
	if !s.grad {
		return x
	}
	return s.Detach(x)
}

func rmsNormGradient(b backward) []Tensor {
	return b.normGradient(rmsNormGradKernel, C.popri_rows{w: b.saved[1].floats()}, b.saved[1])
}

// LayerNorm returns (x - mean)/√(variance + eps)·weight + bias over the last dimension, with float32 sums. It has a
// gradient.
func (s *Scope) LayerNorm(x, weight, bias Tensor, eps float64) Tensor {
	y, _ := s.LayerNormResidual(x, weight, bias, eps)
	return y
}

// LayerNormResidual is [Scope.LayerNorm], and returns x again for the residual connection, whose gradient is added to
// the norm's in one pass.
func (s *Scope) LayerNormResidual(x, weight, bias Tensor, eps float64) (y, same Tensor) {
	n := x.Size(-1)
	x = s.Contiguous(x)
	fusable("LayerNorm", x, weight.NumElements() == n && bias.NumElements() == n,
		fmt.Sprintf("as wide as the weight's %d and the bias's %d", weight.NumElements(), bias.NumElements()))
	if !s.fused("LayerNorm", x, weight, bias) {
		// In bfloat16, libtorch's gradients of the weights are off by several percent: it adds them up in bfloat16.
		y = s.portableLayerNorm(s.To(x, Float32), s.To(weight, Float32), s.To(bias, Float32), eps)
		return s.To(y, x.DType()), x
	}
	return s.norm(stepLayerNorm, layerNormKernel, x, s.Contiguous(s.To(weight, Float32)), s.Contiguous(s.To(bias, Float32)), eps)
}

func layerNormGradient(b backward) []Tensor {
	return b.normGradient(layerNormGradKernel, C.popri_rows{w: b.saved[1].floats()}, b.saved[1], b.saved[1])
}

// Rows whose contributions to a weight's gradient are added up first. The number does not depend on the threads, so
// neither do the sums.
const gradientRows = 64

// normGradient returns the gradients of a norm for its input and for its weights, whose sums k computes side by side.
func (b backward) normGradient(k kernel, p C.popri_rows, weights ...Tensor) []Tensor {
	x := b.saved[0]
	if !b.outGrads[0].Defined() { // the norm's result was not used
		b.outGrads[0] = b.Zeros(x.DType(), x.Shape()...)
	}
	dy := b.Contiguous(b.outGrads[0])
	if b.outGrads[1].Defined() {
		p.more = b.Contiguous(b.outGrads[1]).pointer()
	}
	n := x.Size(-1)
	rows := x.NumElements() / n
	summed := slices.Contains(b.wanted[1:], true)
	block := int64(gradientRows)
	switch {
	case b.gpu && summed:
		block = gradientRows / 4 // more blocks than the CPU has threads
	case b.gpu:
		block = 1
	}
	blocks := (rows + block - 1) / block
	dx := b.Empty(x.DType(), x.Shape()...)
	p.bf16, p.eps, p.n = cbool(x.DType() == BFloat16), C.float(b.numbers[0]), C.int64_t(n)
	p.x, p.dy, p.y = C.at_data_ptr(x.c), C.at_data_ptr(dy.c), C.at_data_ptr(dx.c)
	p.rows, p.block = C.int64_t(rows), C.int64_t(block)
	out := append([]Tensor{dx}, make([]Tensor, len(weights))...)
	width := n * int64(len(weights))
	var parts Tensor
	if summed {
		parts = b.Zeros(Float32, max(1, blocks), width)
		p.dw = parts.floats()
	}
	b.shared(k, unsafe.Pointer(&p), blocks, n*block)
	switch {
	case summed && b.gpu:
		parts = b.sumColumns(parts)
	case summed:
		sums := parts.view32()
		for i := int64(1); i < blocks; i++ {
			for k, x := range sums[i*width:][:width] {
				sums[k] += x
			}
		}
	}
	for i, w := range weights {
		if summed {
			out[i+1] = b.View(b.Narrow(b.Narrow(parts, 0, 0, 1), 1, int64(i)*n, n), w.Shape()...)
		}
	}
	return out
}

// Kernels that work on rows, and their names in a profile.
var (
	layerNormKernel = kernel{C.popri_range(C.popri_layernorm_rows), C.CString("popri::layernorm"),
		C.GPU_layernorm_rows}
	layerNormGradKernel = kernel{C.popri_range(C.popri_layernorm_grad), C.CString("popri::layernorm_grad"),
		C.GPU_layernorm_grad}
	rmsNormKernel     = kernel{C.popri_range(C.popri_rmsnorm_rows), C.CString("popri::rmsnorm"), C.GPU_rmsnorm_rows}
	rmsNormGradKernel = kernel{C.popri_range(C.popri_rmsnorm_grad), C.CString("popri::rmsnorm_grad"),
		C.GPU_rmsnorm_grad}
	swiGLUKernel     = kernel{C.popri_range(C.popri_swiglu_rows), C.CString("popri::swiglu"), C.GPU_swiglu_rows}
	swiGLUGradKernel = kernel{C.popri_range(C.popri_swiglu_grad), C.CString("popri::swiglu_grad"),
		C.GPU_swiglu_grad}
	geluKernel         = kernel{C.popri_range(C.popri_gelu_rows), C.CString("popri::gelu"), C.GPU_gelu_rows}
	geluGradKernel     = kernel{C.popri_range(C.popri_gelu_grad), C.CString("popri::gelu_grad"), C.GPU_gelu_grad}
	addGeluKernel      = kernel{C.popri_range(C.popri_add_gelu_rows), C.CString("popri::add_gelu"), none}
	addLayerNormKernel = kernel{C.popri_range(C.popri_add_layernorm_rows), C.CString("popri::add_layernorm"), none}
	splitHeadsKernel   = kernel{C.popri_range(C.popri_split_heads), C.CString("popri::split_heads"),
		C.GPU_split_heads}
	splitHeadsGradKernel = kernel{C.popri_range(C.popri_split_heads_grad), C.CString("popri::split_heads_grad"),
		C.GPU_split_heads_grad}
	softmaxKernel     = kernel{C.popri_range(C.popri_softmax_rows), C.CString("popri::softmax"), C.GPU_softmax_rows}
	softmaxGradKernel = kernel{C.popri_range(C.popri_softmax_grad), C.CString("popri::softmax_grad"),
		C.GPU_softmax_grad}
	lowRankKernel     = kernel{C.popri_range(C.popri_low_rank_rows), C.CString("popri::low_rank"), none}
	lowRankGradKernel = kernel{C.popri_range(C.popri_low_rank_grad), C.CString("popri::low_rank_grad"), none}
	lowRankSumsKernel = kernel{C.popri_range(C.popri_low_rank_sums), C.CString("popri::low_rank_sums"), none}
	attendKernel      = kernel{C.popri_range(C.popri_attend_train), C.CString("popri::attend_train"), none}
	attendGradKernel  = kernel{C.popri_range(C.popri_attend_train_grad), C.CString("popri::attend_train_grad"), none}
)

type kernel struct {
	f    C.popri_range
	name *C.char
	gpu  C.int // the kernel of a GPU that does the same, or none
}

const none = -1

// shared runs k, with what p points to, for n rows of the given width on the threads of libtorch's operations. A row's
// result does not depend on how many they are.
func (s *Scope) shared(k kernel, p unsafe.Pointer, n, width int64) {
	if s.gpu {
		launch(k, p, n, n, width)
		return
	}
	threads := s.threads
	if n*width < 1<<14 {
		threads = 1
	}
	C.popri_shared(k.name, k.f, p, C.int64_t(n), C.int(threads))
}

// FusedLayerNorm is [Scope.LayerNorm] without a gradient, with weight and bias [n] of any type.
func (s *Scope) FusedLayerNorm(x, weight, bias Tensor, eps float64) Tensor {
	n := x.Size(-1)
	if x.DType() != BFloat16 || !CanPack(BFloat16) || !s.native("FusedLayerNorm", x, weight, bias) {
		return s.LayerNorm(x, weight, bias, eps)
	}
	fusable("FusedLayerNorm", x, weight.NumElements() == n && bias.NumElements() == n,
		fmt.Sprintf("as wide as the weight's %d and the bias's %d", weight.NumElements(), bias.NumElements()))
	w, b := s.Contiguous(s.To(weight, Float32)), s.Contiguous(s.To(bias, Float32))
	y := s.Empty(x.DType(), x.Shape()...)
	row := make([]float32, (n+63)/64*64)
	C.popri_layernorm_bf16((*C.uint16_t)(C.at_data_ptr(x.c)), cfloats(w.view32()), cfloats(b.view32()),
		(*C.uint16_t)(C.at_data_ptr(y.c)), C.int64_t(x.NumElements()/n), C.int64_t(n), C.float(eps), cfloats(row))
	return y
}

// addable panics unless the kernels of y += … can work on y [..., n], and returns n.
func (s *Scope) addable(op string, y Tensor, add ...Tensor) int64 {
	n := y.Size(-1)
	ok := n%16 == 0 && s.native(op, append(add, y)...)
	for _, a := range add {
		ok = ok && a.DType() == Float32 && a.NumElements()%n == 0
	}
	fusable(op, y, ok && y.DType() == Float32, "on the CPU, as wide as what is added, a multiple of 16")
	return n
}

// AddGelu_ makes float32 y [..., n], on the CPU, the GELU of y + bias, in its form with erf, in place and without a
// gradient. bias is [n], n a multiple of 16.
func (s *Scope) AddGelu_(y, bias Tensor) {
	n := s.addable("AddGelu_", y, bias)
	p := C.popri_rows{n: C.int64_t(n), w: cfloats(bias.view32()), y: C.at_data_ptr(y.c)}
	s.shared(addGeluKernel, unsafe.Pointer(&p), y.NumElements()/n, n)
}

// AddLayerNorm_ makes float32 y [..., n], on the CPU, the LayerNorm of y + residual + bias, in place and without a
// gradient. add is [3, n]: bias, and the norm's weight and bias; n is a multiple of 16.
func (s *Scope) AddLayerNorm_(y, residual, add Tensor, eps float64) {
	n := s.addable("AddLayerNorm_", y, residual, add)
	if residual.NumElements() != y.NumElements() || add.NumElements() != 3*n {
		refuse("AddLayerNorm_", "they do not fit each other", y, residual, add)
	}
	residual = s.Contiguous(residual)
	p := C.popri_rows{eps: C.float(eps), n: C.int64_t(n), w: cfloats(add.view32()),
		x: C.at_data_ptr(residual.c), y: C.at_data_ptr(y.c)}
	s.shared(addLayerNormKernel, unsafe.Pointer(&p), y.NumElements()/n, n)
}

// SwiGLU returns silu(gate)·up for x [..., 2n] that holds gate and up side by side. It has a gradient.
func (s *Scope) SwiGLU(x Tensor) Tensor {
	shape := x.Shape()
	n := shape[len(shape)-1] / 2
	fusable("SwiGLU", x, shape[len(shape)-1]%2 == 0, "of even width")
	if !s.fused("SwiGLU", x) {
		return s.portableSwiGLU(x, n)
	}
	return s.rows(stepSwiGLU, swiGLUKernel, x, append(shape[:len(shape)-1:len(shape)-1], n)...)
}

// rows makes a tensor of a shape from the rows of x, by the kernel k of the step op.
func (s *Scope) rows(op int, k kernel, x Tensor, shape ...int64) Tensor {
	y := s.Empty(x.DType(), shape...)
	n := max(1, y.Size(-1))
	p := C.popri_rows{bf16: cbool(x.DType() == BFloat16), n: C.int64_t(n), x: C.at_data_ptr(x.c), y: C.at_data_ptr(y.c)}
	s.shared(k, unsafe.Pointer(&p), y.NumElements()/n, n)
	s.record(step{op: op, saved: []Tensor{x}, inputs: []Tensor{x}, outputs: []Tensor{y}})
	return y
}

func swiGLUGradient(b backward) []Tensor { return b.rowsGradient(swiGLUGradKernel) }

// rowsGradient is the gradient of an operation on the rows of one tensor, which k computes from its input and the
// gradient of its output.
func (b backward) rowsGradient(k kernel) []Tensor {
	x, dy := b.saved[0], b.Contiguous(b.outGrads[0])
	dx := b.Empty(x.DType(), x.Shape()...)
	n := dy.Size(-1)
	p := C.popri_rows{bf16: cbool(x.DType() == BFloat16), n: C.int64_t(n), x: C.at_data_ptr(x.c),
		dy: C.at_data_ptr(dy.c), y: C.at_data_ptr(dx.c)}
	b.shared(k, unsafe.Pointer(&p), dy.NumElements()/max(1, n), n)
	return []Tensor{dx}
}

// geluTanh is GELU with the tanh approximation (GPT-2's gelu_new). It has a gradient.
func (s *Scope) geluTanh(x Tensor) Tensor {
	if d := x.DType(); d != Float32 && d != BFloat16 || !s.fused("GeluTanh", x) {
		return s.portableGeluTanh(x)
	}
	x = s.Contiguous(x) // whatever it is a part of, its values are the same
	return s.rows(stepGelu, geluKernel, x, x.Shape()...)
}

func geluGradient(b backward) []Tensor { return b.rowsGradient(geluGradKernel) }

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
	if s.launches(x) {
		p := C.popri_gpu_rotate{x: x.floats(), cosines: cosines.floats(), sines: sines.floats(),
			angles: C.int64_t(angles), width: C.int64_t(width), heads: C.int64_t(heads), dim: C.int64_t(dim)}
		launch(rotateKernel, unsafe.Pointer(&p), rows, rows, heads*dim/2)
		return
	}
	if !s.native("Rotate_", x, cosines, sines) {
		s.portableRotate(s.View(x, -1, angles, width), cosines, sines, heads, dim)
		return
	}
	C.popri_rotate(cfloats(x.view32()), cfloats(cosines.view32()), cfloats(sines.view32()), C.int64_t(rows),
		C.int64_t(angles), C.int64_t(width), C.int64_t(heads), C.int64_t(dim))
}
