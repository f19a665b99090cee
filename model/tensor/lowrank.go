package tensor

// #include "torch.h"
import "C"

import "unsafe"

// LowRank is the change of a projection's outputs by an adapter: x·downᵀ·up, where each part of the outputs may have
// factors of its own.
type LowRank struct {
	Down  Tensor // float32 [ranks, in], the factors of the parts one after the other
	Up    Tensor // float32, the matrices [rank, width] of the parts one after the other
	Parts []LowRankPart
}

// LowRankPart is a part of the outputs.
type LowRankPart struct{ Rank, Offset, Width int64 }

// lowRankParts is how many parts the kernels take.
const lowRankParts = C.LOW_RANK_PARTS

// Weight is that of a projection, which is not trained.
type Weight struct {
	Matrix, Bias Tensor // [out, in] or, if InOut, [in, out]; [out] or none
	InOut        bool
	// Packed is the matrix laid out, Back its transpose, for the gradient; nil for none.
	Packed, Back *Packed
}

// Adapted returns the projection of x [n, in] by w plus the change of l. It has a gradient for x and l. x, matrix and
// bias have one type; what l adds is computed in float32, and rounded once.
func (s *Scope) Adapted(x Tensor, w Weight, l LowRank) Tensor {
	x = s.Contiguous(x)
	if !s.fused("Adapted", x, w.Matrix, l.Down, l.Up) || len(l.Parts) > lowRankParts ||
		s.gpu && l.Down.Size(0) > C.GPU_RANKS || x.DType() != Float32 && x.DType() != BFloat16 {
		return s.portableAdapted(x, w, l)
	}
	packed := w.Packed != nil && w.Back != nil && w.Packed.DType == x.DType() && !s.gpu
	var y Tensor
	s.NoGrad(func() {
		if packed {
			y = w.Packed.Product(s, x, Epilogue{Bias: w.Bias})
		} else {
			y = s.Projected(x, w.Matrix, w.Bias, w.InOut)
		}
	})
	low := s.Empty(Float32, x.Size(0), l.Down.Size(0))
	down, up := s.Contiguous(l.Down), s.Contiguous(l.Up)
	numbers := make([]float64, 2+3*lowRankParts)
	matrix := w.Matrix
	switch {
	case packed:
		numbers[0], matrix = packedWeight, w.Back.data
	case w.InOut:
		numbers[0] = inOutWeight
	}
	numbers[1] = float64(len(l.Parts))
	for i, p := range l.Parts {
		numbers[2+3*i], numbers[3+3*i], numbers[4+3*i] = float64(p.Rank), float64(p.Offset), float64(p.Width)
	}
	c := lowRank(x, down, up, y.Size(1), l.Parts)
	c.y, c.low = y.pointer(), (*C.float)(low.pointer())
	s.shared(lowRankKernel, unsafe.Pointer(&c), x.Size(0), x.Size(1)+y.Size(1))
	s.record(step{op: stepAdapted, numbers: numbers, saved: []Tensor{x, matrix, down, up, low},
		inputs: []Tensor{x, down, up}, outputs: []Tensor{y}})
	return y
}

// How a step keeps its weight.
const (
	outInWeight = iota
	inOutWeight
	packedWeight // transposed
)

// Projected returns x [n, in] times a weight [out, in] or, if inOut, [in, out], plus bias [out], which may be none.
func (s *Scope) Projected(x, weight, bias Tensor, inOut bool) Tensor {
	switch {
	case !inOut:
		return s.Linear(x, weight, bias)
	case !bias.Defined():
		return s.MatMul(x, weight)
	}
	return s.AddMM(bias, x, weight)
}

func lowRank(x, down, up Tensor, out int64, parts []LowRankPart) C.popri_low_rank {
	c := C.popri_low_rank{bf16: cbool(x.DType() == BFloat16), in: C.int64_t(x.Size(1)), out: C.int64_t(out),
		ranks: C.int64_t(down.Size(0)), parts: C.int(len(parts)), x: x.pointer(),
		down: (*C.float)(down.pointer()), up: (*C.float)(up.pointer())}
	for i, p := range parts {
		c.rank[i], c.offset[i], c.width[i] = C.int64_t(p.Rank), C.int64_t(p.Offset), C.int64_t(p.Width)
	}
	return c
}

func adaptedGradient(b backward) []Tensor {
	x, weight, down, up, low := b.saved[0], b.saved[1], b.saved[2], b.saved[3], b.saved[4]
	dy := b.Contiguous(b.slopes[0])
	var parts []LowRankPart
	for i := range int(b.numbers[1]) {
		n := b.numbers[2+3*i:]
		parts = append(parts, LowRankPart{int64(n[0]), int64(n[1]), int64(n[2])})
	}
	rows, in, out := x.Size(0), x.Size(1), dy.Size(1)
	dlow := b.Empty(Float32, low.Shape()...)
	c := lowRank(x, down, up, out, parts)
	c.y, c.dlow = dy.pointer(), (*C.float)(dlow.pointer())
	grads := make([]Tensor, 3)
	if b.wanted[0] {
		switch kept := b.numbers[0]; kept {
		case packedWeight:
			back := Packed{In: out, Out: in, DType: x.DType(), planes: planesOf(x.DType()), data: weight}
			grads[0] = back.Product(b.Scope, dy, Epilogue{})
		default:
			grads[0] = b.Projected(dy, weight, Tensor{}, kept == outInWeight)
		}
		c.dx = grads[0].pointer()
	}
	b.shared(lowRankGradKernel, unsafe.Pointer(&c), rows, in+out)
	// sums adds up, over rows of m, what low has for factors from the given one on, times the row. On a GPU, blocks of
	// rows are added up first.
	sums := func(m, low Tensor, first, offset, rank, width int64, to Tensor) {
		blocks, parts, of := (width+C.LOW_RANK_COLUMNS-1)/C.LOW_RANK_COLUMNS, int64(1), to
		work := C.LOW_RANK_COLUMNS * rows
		if b.gpu {
			blocks, work = (width+C.GPU_COLUMNS-1)/C.GPU_COLUMNS, C.GPU_COLUMNS/2
			parts = (rows + C.GPU_SUMMED - 1) / C.GPU_SUMMED
			of = b.Empty(Float32, parts, rank*width)
		}
		p := C.popri_low_rank_sum{bf16: c.bf16, rows: C.int64_t(rows), ranks: c.ranks, rank: C.int64_t(rank),
			low: (*C.float)(unsafe.Add(low.pointer(), 4*first)), m: m.pointer(), stride: C.int64_t(m.Size(1)),
			offset: C.int64_t(offset), width: C.int64_t(width), sums: of.floats()}
		b.shared(lowRankSumsKernel, unsafe.Pointer(&p), blocks*parts, work)
		if b.gpu {
			b.Copy_(to, b.View(b.sumColumns(of), to.Shape()...))
		}
	}
	if b.wanted[1] {
		grads[1] = b.Empty(Float32, down.Shape()...)
		sums(x, dlow, 0, 0, down.Size(0), in, grads[1])
	}
	if b.wanted[2] {
		grads[2] = b.Empty(Float32, up.Shape()...)
		at, first, flat := int64(0), int64(0), b.View(grads[2], -1)
		for _, p := range parts {
			sums(dy, low, first, p.Offset, p.Rank, p.Width, b.Narrow(flat, 0, at, p.Rank*p.Width))
			at, first = at+p.Rank*p.Width, first+p.Rank
		}
	}
	return grads
}

func (s *Scope) portableAdapted(x Tensor, w Weight, l LowRank) Tensor {
	y := s.Projected(x, w.Matrix, w.Bias, w.InOut)
	low := s.Linear(x, s.To(l.Down, x.DType()), Tensor{})
	var all []Tensor
	column, rank, at := int64(0), int64(0), int64(0)
	same := func(to int64) { // what no part changes
		if to > column {
			all = append(all, s.Narrow(y, 1, column, to-column))
		}
		column = to
	}
	for _, p := range l.Parts {
		same(p.Offset)
		up := s.To(s.View(s.Narrow(l.Up, 0, at, p.Rank*p.Width), p.Rank, p.Width), x.DType())
		all = append(all, s.Add(s.Narrow(y, 1, column, p.Width), s.MatMul(s.Narrow(low, 1, rank, p.Rank), up)))
		column, rank, at = column+p.Width, rank+p.Rank, at+p.Rank*p.Width
	}
	same(y.Size(1))
	if len(all) == 1 {
		return all[0]
	}
	return s.Cat(1, all...)
}
