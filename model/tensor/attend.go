package tensor

// #include "torch.h"
import "C"

import (
	"unsafe"

	"popri/internal/numeric"
)

// CanAttend reports whether [Scope.Attend] takes these queries and this mask: [Scope.CanAttendHeads], and a mask for
// each pair of tokens, in bfloat16.
func (s *Scope) CanAttend(q, k, mask Tensor) bool {
	shape, of := q.Shape(), mask.Shape()
	n := len(of)
	return len(shape) == 4 && s.CanAttendHeads(q.DType(), shape[3]) && s.native("Attend", q, k, mask) &&
		mask.DType() == BFloat16 && k.Size(2) == shape[2] && n >= 2 && of[n-1] == shape[2] && of[n-2] == shape[2] &&
		(n == 2 || n == 4 && of[1] == 1 && (of[0] == 1 || of[0] == shape[0]))
}

// CanAttendHeads reports whether [Scope.Attend] and [Scope.AttendRows] take heads of this type and width: a multiple of
// 32, in bfloat16 on a CPU with its products, and in float32 on a matrix unit.
func (s *Scope) CanAttendHeads(d DType, dim int64) bool {
	return (d == BFloat16 && CanPack(d) || d == Float32 && MatrixUnit()) && dim%32 == 0 && !s.portable && s.device == CPU
}

// Attend returns the heads' outputs side by side [B, T, Heads·Dim]: of queries q [B, Heads, T, Dim] and of keys and
// values [B, KVHeads, T, Dim], drop(softmax(scale·q·kᵀ + mask))·v, where successive heads share one k and v. The mask
// is [B or 1, 1, T, T] or [T, T]. The scores are never all in memory. It needs [Scope.CanAttend] and has a gradient for
// q, k and v (Dao et al. 2022, arXiv 2205.14135). What drop hides is what [Scope.Drop] hides of [B, Heads, T, T].
func (s *Scope) Attend(q, k, v, mask Tensor, scale float64, drop Dropout) Tensor {
	fusable("Attend", s.Contiguous(q), s.CanAttend(q, k, mask),
		"of a type and width that attention takes here, with a mask in bfloat16 for it")
	return s.attend(q, k, v, mask, Tensor{}, scale, drop)
}

// AttendRows is [Scope.Attend] for sequences of several lengths, one behind the other in q, k and v, whose B is 1: the
// tokens of starts[i] up to, but not including, starts[i+1] see each other as the beginning of mask [n, n] says, or of
// mask i of [sequences, 1, n, n], where n is at least the length of the longest. It needs [Scope.CanAttendHeads].
func (s *Scope) AttendRows(q, k, v, mask Tensor, starts []int64, scale float64, drop Dropout) Tensor {
	shape, width := q.Shape(), mask.Size(-1)
	n := len(starts) - 1
	masks := mask.NumElements() / max(1, width*width)
	ok := len(shape) == 4 && shape[0] == 1 && k.Size(2) == shape[2] && s.CanAttendHeads(q.DType(), shape[3]) &&
		mask.DType() == BFloat16 && mask.Size(-2) == width && (masks == 1 || masks == int64(n)) && n > 0 &&
		starts[0] == 0 && starts[n] == shape[2]
	for i := 0; ok && i < n; i++ {
		ok = starts[i] < starts[i+1] && starts[i+1]-starts[i] <= width
	}
	fusable("AttendRows", s.Contiguous(q), ok, "[1, Heads, T, Dim] of a type and width that attention takes here, "+
		"with a mask in bfloat16 for the longest sequence")
	return s.attend(q, k, v, mask, s.FromInt64(starts, int64(n)+1), scale, drop)
}

func (s *Scope) attend(q, k, v, mask, starts Tensor, scale float64, drop Dropout) Tensor {
	q, k, v, mask = s.Contiguous(q), s.Contiguous(k), s.Contiguous(v), s.Contiguous(mask)
	fusable("Attend", v, v.DType() == q.DType() && k.DType() == q.DType() && k.NumElements() == v.NumElements(),
		"like the keys, in the type of the queries")
	shape := q.Shape()
	y := s.Empty(q.DType(), shape[0], shape[2], shape[1]*shape[3])
	sums := s.Empty(Float32, shape[0], shape[1], shape[2])
	joined := 0.0
	if starts.Defined() {
		joined = 1
	} else { // something to save
		starts = mask
	}
	t := step{op: stepAttend, numbers: []float64{scale, joined, drop.Rate, float64(drop.Key >> 32), float64(uint32(drop.Key))},
		saved: []Tensor{q, k, v, mask, y, sums, starts}, inputs: []Tensor{q, k, v}, outputs: []Tensor{y}}
	p, units := attention(t.numbers, t.saved)
	s.shared(attendKernel, unsafe.Pointer(&p), units, shape[2]*shape[3])
	s.record(t)
	return y
}

// attention is what the kernels take, of what a step has, and the number of heads of keys of all sequences.
func attention(numbers []float64, saved []Tensor) (p C.popri_attention, units int64) {
	q, k, v, mask, y, sums, starts := saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[6]
	shape, width := q.Shape(), mask.Size(-1)
	drop := Dropout{numbers[2], uint64(numbers[3])<<32 | uint64(numbers[4])}
	p = C.popri_attention{tokens: C.int64_t(shape[2]), heads: C.int64_t(shape[1]), kv_heads: C.int64_t(k.Size(1)),
		dim: C.int64_t(shape[3]), scale: C.float(numbers[0]), planes: planesOf(q.DType()), tiles: cbool(MatrixUnit()),
		mask_width: C.int64_t(width), masks: C.int64_t(mask.NumElements() / (width * width)), q: q.pointer(), k: k.pointer(),
		v: v.pointer(), mask: (*C.uint16_t)(mask.pointer()), y: y.pointer(), sums: (*C.float)(sums.pointer()),
		key: C.uint64_t(drop.Key), hidden: dropBelow(drop.Rate), kept: C.float(1 / (1 - drop.Rate))}
	sequences := shape[0]
	if numbers[1] != 0 {
		p.starts, sequences = (*C.int64_t)(starts.pointer()), starts.NumElements()-1
	}
	return p, sequences * k.Size(1)
}

func attendGradient(b backward) []Tensor {
	q := b.saved[0]
	dy := b.Contiguous(b.outGrads[0])
	out := numeric.Map(b.saved[:3], func(x Tensor) Tensor { return b.Empty(x.DType(), x.Shape()...) })
	p, units := attention(b.numbers, b.saved)
	p.dy, p.dq, p.dk, p.dv = dy.pointer(), out[0].pointer(), out[1].pointer(), out[2].pointer()
	b.shared(attendGradKernel, unsafe.Pointer(&p), units, q.Size(2)*q.Size(3))
	return out
}
