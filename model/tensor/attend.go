package tensor

// #include "torch.h"
import "C"

import "unsafe"

// CanAttend reports whether [Scope.Attend] takes these queries and this mask: bfloat16 on a CPU with its products,
// heads of a multiple of 32 dimensions, and a mask for each pair of tokens.
func (s *Scope) CanAttend(q, k, mask Tensor) bool {
	shape, of := q.Shape(), mask.Shape()
	if q.DType() != BFloat16 || mask.DType() != BFloat16 || !CanPack(BFloat16) || !s.native("Attend", q, k, mask) {
		return false
	}
	n := len(of)
	return len(shape) == 4 && shape[3]%32 == 0 && k.Size(2) == shape[2] && n >= 2 && of[n-1] == shape[2] &&
		of[n-2] == shape[2] && (n == 2 || n == 4 && of[1] == 1 && (of[0] == 1 || of[0] == shape[0]))
}

// Attend returns the heads' outputs side by side [B, T, Heads·Dim]: of queries q [B, Heads, T, Dim] and of keys and
// values [B, KVHeads, T, Dim], softmax(scale·q·kᵀ + mask)·v, where successive heads share those of one. The mask is
// [B or 1, 1, T, T] or [T, T]. The scores are never all in memory. It needs [Scope.CanAttend] and has a gradient for
// q, k and v (Dao et al. 2022, arXiv 2205.14135).
func (s *Scope) Attend(q, k, v, mask Tensor, scale float64) Tensor {
	q, k, v, mask = s.Contiguous(q), s.Contiguous(k), s.Contiguous(v), s.Contiguous(mask)
	shape := q.Shape()
	fusable("Attend", q, s.CanAttend(q, k, mask) && v.DType() == BFloat16 && k.NumElements() == v.NumElements(),
		"bfloat16 on a CPU with its products, with a mask for it")
	y := s.Empty(BFloat16, shape[0], shape[2], shape[1]*shape[3])
	sums := s.Empty(Float32, shape[0], shape[1], shape[2])
	p := attention(q, k, v, mask, y, sums, scale)
	s.shared(attendKernel, unsafe.Pointer(&p), shape[0]*k.Size(1), shape[2]*shape[3])
	s.record(step{op: stepAttend, numbers: []float64{scale}, saved: []Tensor{q, k, v, mask, y, sums},
		inputs: []Tensor{q, k, v}, outputs: []Tensor{y}})
	return y
}

func attention(q, k, v, mask, y, sums Tensor, scale float64) C.popri_attention {
	shape := q.Shape()
	data := func(t Tensor) *C.uint16_t { return (*C.uint16_t)(t.pointer()) }
	return C.popri_attention{tokens: C.int64_t(shape[2]), heads: C.int64_t(shape[1]), kv_heads: C.int64_t(k.Size(1)),
		dim: C.int64_t(shape[3]), scale: C.float(scale), tiles: cbool(MatrixUnit()),
		masks: C.int64_t(mask.NumElements() / (shape[2] * shape[2])), q: data(q), k: data(k), v: data(v),
		mask: data(mask), y: data(y), sums: (*C.float)(sums.pointer())}
}

func attendGradient(b backward) []Tensor {
	q, k, v := b.saved[0], b.saved[1], b.saved[2]
	dy := b.Contiguous(b.slopes[0])
	out := []Tensor{b.Empty(BFloat16, q.Shape()...), b.Empty(BFloat16, k.Shape()...), b.Empty(BFloat16, v.Shape()...)}
	p := attention(q, k, v, b.saved[3], b.saved[4], b.saved[5], b.numbers[0])
	p.dy = (*C.uint16_t)(dy.pointer())
	for i, to := range []**C.uint16_t{&p.dq, &p.dk, &p.dv} {
		*to = (*C.uint16_t)(out[i].pointer())
	}
	b.shared(attendGradKernel, unsafe.Pointer(&p), q.Size(0)*k.Size(1), q.Size(2)*q.Size(3))
	return out
}
