package tensor

// #include <stdlib.h>
// #include "torch.h"
import "C"

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// matrixUnit reports, once, whether this process may use the CPU's matrix unit.
var matrixUnit = sync.OnceValue(func() bool {
	return newest() && cpu.X86.HasAMXBF16 && cpu.X86.HasAVX512 && os.Getenv("POPRI_AMX") != "off" && C.popri_amx_enable() != 0
})

// MatrixUnit reports whether the CPU has AMX with bfloat16 and the kernel lets the process use it. POPRI_AMX=off in the
// environment disables it, and so does POPRI_KERNELS, which chooses kernels without it or none.
func MatrixUnit() bool { return matrixUnit() }

// CanPack reports whether [Scope.Pack] makes products of type d faster here: on a matrix unit, and on a CPU with
// AVX-512, in bfloat16 if it has AVX-512 BF16.
func CanPack(d DType) bool {
	x := cpu.X86
	vector := newest() && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ && C.popri_packed_size(1, 1, 1) > 0
	return MatrixUnit() || vector && (d == Float32 || d == BFloat16 && x.HasAVX512BF16)
}

// CanPack8 reports whether [Scope.Pack8] makes products faster here: on a CPU with AVX-512 VNNI and without a matrix
// unit, whose bfloat16 products are faster.
func CanPack8() bool {
	return !MatrixUnit() && CanPack(BFloat16) && cpu.X86.HasAVX512VNNI && C.popri_packed8_size(1, 1) > 0
}

// planesOf is how many bfloat16 parts of a weight [Scope.Pack] keeps for products of type d; 0: it keeps float32.
func planesOf(d DType) C.int {
	switch {
	case d == BFloat16:
		return 1
	case MatrixUnit(): // which has no products of float32
		return 3
	}
	return 0
}

// PackedSize is the number of bytes that [Scope.Pack] keeps of a weight for products of type d.
func PackedSize(d DType) int64 {
	if planes := int64(planesOf(d)); planes > 0 {
		return 2 * planes
	}
	return 4
}

// Packed is a constant weight laid out for products with it. Free releases it.
type Packed struct {
	In, Out int64
	DType   DType // of the products: Float32 or BFloat16
	Gated   bool  // products are silu(first half of the outputs)·second half
	planes  C.int
	data    Tensor
	scales  Tensor // of the outputs, where the weights are bytes; else none
}

// Pack lays out the weight w, float32 or bfloat16: [in, out] if inOut, else [out, in]. Products are of type d: BFloat16
// with float32 sums, or Float32 with the accuracy of float32. If gated, the outputs are a gate and its input, side by
// side, and products are silu(gate)·input (SwiGLU); out is then a multiple of 32. It needs [CanPack].
func (s *Scope) Pack(w Tensor, inOut, gated bool, d DType) *Packed {
	if !CanPack(d) || (d != Float32 && d != BFloat16) {
		refuse("Pack", fmt.Sprintf("this CPU has no such products of %v", d), w)
	}
	p, g := s.packing("Pack", w, inOut, gated, d)
	p.data = s.Keep(s.Empty(BFloat16, int64(C.popri_packed_size(g.in, g.out, p.planes))))
	s.parallel(int((p.Out+31)/32), func(from, to int) {
		C.popri_pack(g.w, g.bf16, g.row, g.col, g.in, g.out, p.planes, g.gated, C.int64_t(from), C.int64_t(to),
			(*C.uint16_t)(p.data.pointer()))
	})
	return p
}

// laidOut is a weight whose data [Scope.Pack] has laid out for products of type d.
func laidOut(data Tensor, in, out int64, d DType) *Packed {
	return &Packed{In: in, Out: out, DType: d, planes: planesOf(d), data: data}
}

// Pack8 is [Scope.Pack] with weights rounded to bytes, one scale for each output. A product rounds its inputs, too,
// with one scale for each row, and is exact from there on. It needs [CanPack8].
func (s *Scope) Pack8(w Tensor, inOut, gated bool) *Packed {
	if !CanPack8() {
		refuse("Pack8", "this CPU has no such products", w)
	}
	p, g := s.packing("Pack8", w, inOut, gated, BFloat16)
	p.data = s.Keep(s.Empty(Uint8, int64(C.popri_packed8_size(g.in, g.out))))
	p.scales = s.Keep(s.Empty(Float32, (p.Out+31)/32*32))
	s.parallel(int((p.Out+31)/32), func(from, to int) {
		C.popri_pack8(g.w, g.bf16, g.row, g.col, g.in, g.out, g.gated, C.int64_t(from), C.int64_t(to),
			(*C.uint8_t)(p.data.pointer()), (*C.float)(p.scales.pointer()))
	})
	return p
}

// given is a weight as the kernels read it: w[k·row + n·col] connects input k to output n.
type given struct {
	w                 unsafe.Pointer
	bf16, gated       C.int
	row, col, in, out C.int64_t
}

func (s *Scope) packing(op string, w Tensor, inOut, gated bool, d DType) (*Packed, given) {
	shape := w.Shape()
	t := w.DType()
	if len(shape) != 2 || (t != Float32 && t != BFloat16) || w.device() != CPU {
		refuse(op, "it must be a float32 or bfloat16 matrix on the CPU", w)
	}
	w = s.Contiguous(w)
	p := &Packed{In: shape[1], Out: shape[0], DType: d, Gated: gated, planes: planesOf(d)}
	row, col := int64(1), shape[1]
	if inOut {
		p.In, p.Out = shape[0], shape[1]
		row, col = shape[1], 1
	}
	if gated && p.Out%32 != 0 {
		refuse(op, "gated outputs must be a multiple of 32", w)
	}
	return p, given{C.at_data_ptr(w.c), cbool(t == BFloat16), cbool(gated), C.int64_t(row), C.int64_t(col),
		C.int64_t(p.In), C.int64_t(p.Out)}
}

// pointer is where the elements are; null for none.
func (t Tensor) pointer() unsafe.Pointer {
	if !t.Defined() {
		return nil
	}
	return C.at_data_ptr(t.c)
}

func (t Tensor) floats() *C.float { return (*C.float)(t.pointer()) }

func (t Tensor) longs() *C.int64_t { return (*C.int64_t)(t.pointer()) }

// Free releases the memory.
func (p *Packed) Free() {
	if p != nil {
		p.data.Free()
		p.scales.Free()
		p.data, p.scales = Tensor{}, Tensor{}
	}
}

// Activation is applied to each value of a product.
type Activation int

const (
	NoActivation Activation = C.ACT_NONE
	ActGeluTanh  Activation = C.ACT_GELU_TANH // GELU in its tanh form
	ActGelu      Activation = C.ACT_GELU      // x·Φ(x), to 2e-7 of x
	ActRelu      Activation = C.ACT_RELU
)

// Activate applies a to each element of x.
func (s *Scope) Activate(a Activation, x Tensor) Tensor {
	switch a {
	case ActGeluTanh:
		return s.geluTanh(x)
	case ActGelu:
		return s.gelu(x)
	case ActRelu:
		return s.relu(x)
	}
	return x
}

// Epilogue is what a product does to its result before it is stored: first the bias, then the activation, then the
// residual. The zero value does nothing.
type Epilogue struct {
	Bias     Tensor // [out], or none
	Act      Activation
	Residual Tensor // [..., out], float32 or bfloat16, or none
	DType    DType  // of the result; 0 means x's
}

// Finish does to y, a product with its bias, what is left, as [Packed.Product] does it.
func (e Epilogue) Finish(s *Scope, y Tensor) Tensor {
	y = s.Activate(e.Act, y)
	if e.Residual.Defined() {
		y = s.Add(e.Residual, y)
	}
	if e.DType != 0 {
		y = s.To(y, e.DType)
	}
	return y
}

// inputs returns the kernels' description of a product of p with rows of x, which is contiguous on the CPU, without the
// result. The caller frees it.
func (p *Packed) inputs(x Tensor, rows int64) *C.popri_product {
	shape, t := x.Shape(), x.DType()
	if len(shape) == 0 || shape[len(shape)-1] != p.In || (t != Float32 && t != BFloat16) || x.device() != CPU {
		refuse("Product", fmt.Sprintf("the weight maps %d values to %d", p.In, p.Out), x)
	}
	if t == BFloat16 && p.DType == Float32 {
		refuse("Product", "a float32 product takes float32 inputs", x)
	}
	g := p.form(t)
	g.rows, g.x = C.int64_t(rows), x.pointer()
	return g
}

// CrossProduct returns aᵀ·b of the matrices a [n, M] and b [n, N] of one type, float32 or bfloat16, in type d: added to
// sum [M, N], which is of that type and overwritten, or to nothing. It needs a [MatrixUnit] and the CPU, and records no
// gradient. The result does not depend on the number of threads.
func (s *Scope) CrossProduct(a, b, sum Tensor, d DType) Tensor {
	a, b = s.Contiguous(a), s.Contiguous(b)
	if len(a.Shape()) != 2 || len(b.Shape()) != 2 || a.Size(0) != b.Size(0) || a.DType() != b.DType() || !MatrixUnit() ||
		a.device() != CPU || (a.DType() != Float32 && a.DType() != BFloat16) || (d != Float32 && d != BFloat16) {
		refuse("CrossProduct", "it takes matrices of one type with as many rows, on a CPU with a matrix unit", a, b)
	}
	y := sum
	if !y.Defined() {
		y = s.Empty(d, a.Size(1), b.Size(1))
	} else if y.DType() != d || C.at_is_contiguous(y.c) == 0 || !slices.Equal(y.Shape(), []int64{a.Size(1), b.Size(1)}) {
		refuse("CrossProduct", "the sum has another shape or type, or is not contiguous", a, b, y)
	}
	if y.NumElements() == 0 {
		return y
	}
	size, width := int64(a.DType().Size()), int64(y.DType().Size())
	p := s.Pack(b, true, false, a.DType())
	defer p.Free()
	s.parallel(int((a.Size(1)+31)/32), func(from, to int) {
		g := p.form(a.DType())
		defer C.free(unsafe.Pointer(g))
		first, end := int64(from)*32, min(int64(to)*32, a.Size(1))
		g.rows, g.transposed = C.int64_t(end-first), C.int64_t(a.Size(1))
		g.x = unsafe.Add(a.pointer(), first*size)
		g.y, g.y_bf16 = unsafe.Add(y.pointer(), first*p.Out*width), cbool(y.DType() == BFloat16)
		if sum.Defined() {
			g.residual, g.residual_bf16 = g.y, g.y_bf16
		}
		scratch := C.malloc(C.size_t(p.scratch(a.DType(), end-first)))
		defer C.free(scratch)
		C.popri_product_run(g, scratch)
	})
	return y
}

// scratch is how many bytes of memory a product of the given rows needs, for inputs of type d. Fewer rows need no more.
func (p *Packed) scratch(d DType, rows int64) int64 {
	g := p.form(d)
	defer C.free(unsafe.Pointer(g))
	g.rows = C.int64_t(rows)
	return int64(C.popri_product_scratch(g))
}

// form returns the kernels' description of a product of p with inputs of type d, without the inputs and the result. The
// caller frees it.
func (p *Packed) form(d DType) *C.popri_product {
	g := (*C.popri_product)(C.calloc(1, C.sizeof_popri_product))
	g.in, g.out, g.planes = C.int64_t(p.In), C.int64_t(p.Out), p.planes
	g.w, g.scales = (*C.uint16_t)(p.data.pointer()), (*C.float)(p.scales.pointer())
	g.x_bf16, g.gated, g.tiles = cbool(d == BFloat16), cbool(p.Gated), cbool(MatrixUnit())
	return g
}

// Product returns x [..., in] times the weight, [..., out] or, if gated, half as wide, without a gradient. x is float32
// or bfloat16, on the CPU.
func (p *Packed) Product(s *Scope, x Tensor, e Epilogue) Tensor { return p.product(s, x, e, inner{}) }

// Outputs returns x [..., in] times the weight plus bias, which may be none, [..., out], gated or not.
func (p *Packed) Outputs(s *Scope, x, bias Tensor) Tensor {
	return p.product(s, x, Epilogue{Bias: bias}, inner{whole: true})
}

// inner has options of a product within an MLP or an adapted projection. The activation is then GELU's tanh form or none.
type inner struct {
	added *C.popri_low_rank // the change of an adapter, which is added to the sums; nil for none
	whole bool              // return all outputs, although the weight is gated
	pre   Tensor            // if defined, receives the inputs of the activation or of the gates
	// gradOf, if defined, makes the product a backward pass: the sums are the gradient of an activation's outputs, gradOf
	// has the inputs of the activation (pre of the forward pass), the result is the gradient of those inputs, and again
	// receives the outputs once more. gates says that the activation was SwiGLU.
	gradOf, again Tensor
	gates         bool
}

// product is Product with the options of in.
func (p *Packed) product(s *Scope, x Tensor, e Epilogue, in inner) Tensor {
	x = s.Contiguous(x)
	if e.DType == 0 {
		e.DType = x.DType()
	}
	rows := x.NumElements() / p.In
	g := p.inputs(x, rows)
	defer C.free(unsafe.Pointer(g))
	if e.DType != Float32 && e.DType != BFloat16 {
		refuse("Product", fmt.Sprintf("no products are %v", e.DType), x)
	}
	shape := x.Shape()
	shape[len(shape)-1] = p.Out
	if p.Gated && !in.whole {
		shape[len(shape)-1] /= 2
	}
	g.y_bf16, g.act = cbool(e.DType == BFloat16), C.int(e.Act)
	if in.gradOf.Defined() {
		g.grad_of, g.again = in.gradOf.pointer(), in.again.pointer()
		if in.gates {
			g.act = C.ACT_SWIGLU
			shape[len(shape)-1] *= 2
		}
	}
	y := s.Empty(e.DType, shape...)
	if p.Gated && in.whole {
		g.pre = y.pointer()
	} else {
		g.y = y.pointer()
	}
	if in.pre.Defined() {
		g.pre = in.pre.pointer()
	}
	if rows == 0 {
		return y
	}
	if p.Gated && (e.Act != NoActivation || e.Residual.Defined()) {
		refuse("Product", "a gated product takes no other activation and no residual", x)
	}
	if in.added != nil {
		g.added = *in.added
	}
	if e.DType == BFloat16 && !CanPack(BFloat16) {
		refuse("Product", "this CPU does not round to bfloat16", x)
	}
	if e.Bias.Defined() {
		b := s.Contiguous(s.To(e.Bias, Float32))
		if b.NumElements() != p.Out {
			refuse("Product", "the bias does not fit", x, b)
		}
		g.bias = (*C.float)(C.at_data_ptr(b.c))
	}
	if e.Residual.Defined() {
		r := s.Contiguous(e.Residual)
		if r.NumElements() != rows*p.Out || (r.DType() != Float32 && r.DType() != BFloat16) {
			refuse("Product", "the residual does not fit", x, r)
		}
		g.residual, g.residual_bf16 = C.at_data_ptr(r.c), cbool(r.DType() == BFloat16)
	}
	scratch := s.Empty(Uint8, p.scratch(x.DType(), rows))
	C.popri_product_run(g, C.at_data_ptr(scratch.c))
	return y
}
