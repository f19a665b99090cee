package tensor

// #include "torch.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// HeadShape says how many heads of which width queries, keys and values have.
type HeadShape struct{ Heads, KVHeads, Dim int64 }

// SplitHeads returns the queries [B, Heads, T, Dim] and the keys and values [B, KVHeads, T, Dim] of x [B, T, (Heads +
// 2·KVHeads)·Dim], which holds them side by side. Queries and keys are rotated by the positions' cosines and sines, of
// x's type, [B or 1, T, 1, Dim], unless these are none: x·cos + swap(x)·sin, where swap exchanges the halves of a head.
// It has a gradient.
func (s *Scope) SplitHeads(x, cosines, sines Tensor, h HeadShape) (q, k, v Tensor) {
	shape := x.Shape()
	width := (h.Heads + 2*h.KVHeads) * h.Dim
	ok := len(shape) == 3 && shape[2] == width
	angles := int64(1)
	if ok && cosines.Defined() {
		angles = cosines.NumElements() / h.Dim
		ok = h.Dim%2 == 0 && cosines.DType() == x.DType() && sines.DType() == x.DType() && sines.NumElements() == angles*h.Dim &&
			cosines.Size(-1) == h.Dim && (angles == shape[1] || angles == shape[0]*shape[1])
	}
	fusable("SplitHeads", x, ok, fmt.Sprintf("[B, T, %d], with tables for it", width))
	rotated := []Tensor{x}
	if cosines.Defined() {
		cosines, sines = s.Contiguous(cosines), s.Contiguous(sines)
		rotated = append(rotated, cosines, sines)
	}
	if !s.fused("SplitHeads", rotated...) {
		return s.portableSplitHeads(x, cosines, sines, h)
	}
	b, t := shape[0], shape[1]
	q = s.Empty(x.DType(), b, h.Heads, t, h.Dim)
	k, v = s.Empty(x.DType(), b, h.KVHeads, t, h.Dim), s.Empty(x.DType(), b, h.KVHeads, t, h.Dim)
	p := splitHeads(x, cosines, sines, q, k, v, t, angles, h)
	s.shared(splitHeadsKernel, unsafe.Pointer(&p), b*t, width)
	if !cosines.Defined() { // something to save
		cosines, sines = q, q
	}
	s.record(step{op: stepSplitHeads,
		numbers: []float64{float64(h.Heads), float64(h.KVHeads), float64(h.Dim), float64(t), float64(angles),
			float64(len(rotated))},
		saved: []Tensor{cosines, sines}, inputs: []Tensor{x}, outputs: []Tensor{q, k, v}})
	return q, k, v
}

func splitHeads(x, cosines, sines, q, k, v Tensor, tokens, angles int64, h HeadShape) C.popri_heads {
	return C.popri_heads{bf16: cbool(x.DType() == BFloat16), tokens: C.int64_t(tokens), heads: C.int64_t(h.Heads),
		kv_heads: C.int64_t(h.KVHeads), dim: C.int64_t(h.Dim), angles: C.int64_t(angles), cosines: cosines.pointer(),
		sines: sines.pointer(), x: x.pointer(), q: q.pointer(), k: k.pointer(), v: v.pointer()}
}

func splitHeadsGradient(b backward) []Tensor {
	n := func(i int) int64 { return int64(b.numbers[i]) }
	h, tokens, angles := HeadShape{n(0), n(1), n(2)}, n(3), n(4)
	cosines, sines := b.saved[0], b.saved[1]
	if n(5) == 1 {
		cosines, sines = Tensor{}, Tensor{}
	}
	var batch int64
	for i, dy := range b.outGrads {
		if dy.Defined() {
			b.outGrads[i], batch = b.Contiguous(dy), dy.Size(0)
		}
	}
	width := (h.Heads + 2*h.KVHeads) * h.Dim
	dx := b.Empty(b.saved[0].DType(), batch, tokens, width)
	p := splitHeads(dx, cosines, sines, b.outGrads[0], b.outGrads[1], b.outGrads[2], tokens, angles, h)
	b.shared(splitHeadsGradKernel, unsafe.Pointer(&p), batch*tokens, width)
	return []Tensor{dx}
}

func (s *Scope) portableSplitHeads(x, cosines, sines Tensor, h HeadShape) (q, k, v Tensor) {
	shape := x.Shape()
	all := s.View(x, shape[0], shape[1], -1, h.Dim)
	rotated := s.Narrow(all, 2, 0, h.Heads+h.KVHeads)
	if cosines.Defined() {
		swapped := s.Cat(3, s.Narrow(rotated, 3, h.Dim/2, h.Dim/2), s.Narrow(rotated, 3, 0, h.Dim/2))
		rotated = s.Add(s.Mul(rotated, cosines), s.Mul(swapped, sines))
	}
	rotated = s.Transpose(rotated, 1, 2)
	v = s.Transpose(s.Narrow(all, 2, h.Heads+h.KVHeads, h.KVHeads), 1, 2)
	return s.Narrow(rotated, 1, 0, h.Heads), s.Narrow(rotated, 1, h.Heads, h.KVHeads), v
}

// MaskedSoftmax returns the softmax over the last dimension of scale·scores + mask, with float32 sums. scores is [B,
// Heads, T, S], mask [B or 1, 1, T or 1, S] or [T or 1, S], of the same type and with a finite value in each row. It
// has a gradient for the scores.
func (s *Scope) MaskedSoftmax(scores, mask Tensor, scale float64) Tensor {
	shape := scores.Shape()
	of := mask.Shape()
	maskRows, masks := of[len(of)-2], int64(1)
	if len(of) == 4 {
		masks = of[0] * of[1]
	}
	ok := len(shape) == 4 && (len(of) == 2 || len(of) == 4 && of[1] == 1) && mask.DType() == scores.DType() &&
		of[len(of)-1] == shape[3] && (maskRows == 1 || maskRows == shape[2]) && (masks == 1 || masks == shape[0])
	fusable("MaskedSoftmax", scores, ok, "[B, Heads, T, S], with a mask for it")
	if !s.fused("MaskedSoftmax", scores, mask) {
		return s.Softmax(s.Add(s.MulScalar(scores, scale), mask), -1)
	}
	mask = s.Contiguous(mask)
	y := s.Empty(scores.DType(), shape...)
	p := C.popri_softmax{bf16: cbool(scores.DType() == BFloat16), scale: C.float(scale), width: C.int64_t(shape[3]),
		batch_rows: C.int64_t(shape[1] * shape[2]), mask_rows: C.int64_t(maskRows), masks: C.int64_t(masks),
		scores: C.at_data_ptr(scores.c), mask: C.at_data_ptr(mask.c), y: C.at_data_ptr(y.c)}
	s.shared(softmaxKernel, unsafe.Pointer(&p), shape[0]*shape[1]*shape[2], shape[3])
	s.record(step{op: stepSoftmax, numbers: []float64{scale}, saved: []Tensor{y}, inputs: []Tensor{scores},
		outputs: []Tensor{y}})
	return y
}

func softmaxGradient(b backward) []Tensor {
	y, dy := b.saved[0], b.Contiguous(b.outGrads[0])
	dx := b.Empty(y.DType(), y.Shape()...)
	n := y.Size(-1)
	p := C.popri_softmax{bf16: cbool(y.DType() == BFloat16), scale: C.float(b.numbers[0]), width: C.int64_t(n),
		y: C.at_data_ptr(y.c), dy: C.at_data_ptr(dy.c), dx: C.at_data_ptr(dx.c)}
	b.shared(softmaxGradKernel, unsafe.Pointer(&p), y.NumElements()/max(1, n), n)
	return []Tensor{dx}
}
