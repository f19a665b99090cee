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

// Factors is what an adapter has for a part of a projection's outputs, from Offset on: Scale·B·A.
type Factors struct {
	A, B   Tensor // float32 [rank, in], [width, rank]
	Scale  float64
	Offset int64
}

// LowRank returns the change of a projection's outputs by parts. It has a gradient for their factors.
func (s *Scope) LowRank(parts []Factors) (l LowRank) {
	n := len(parts)
	if n == 0 {
		return l
	}
	var downs, ups, inputs []Tensor
	ranks, size, simple := int64(0), int64(0), n <= lowRankParts
	for _, p := range parts {
		rank, width := p.A.Size(0), p.B.Size(0)
		l.Parts = append(l.Parts, LowRankPart{rank, p.Offset, width})
		ranks, size = ranks+rank, size+rank*width
		inputs = append(inputs, p.A, p.B)
		simple = simple && p.A.DType() == Float32 && p.B.DType() == Float32
	}
	if !simple || !s.native("LowRank", inputs...) {
		for _, p := range parts {
			downs = append(downs, p.A)
			ups = append(ups, s.Reshape(s.Transpose(s.MulScalar(p.B, p.Scale), 0, 1), -1))
		}
		if n == 1 {
			l.Down, l.Up = downs[0], ups[0]
		} else {
			l.Down, l.Up = s.Cat(0, downs...), s.Cat(0, ups...)
		}
		return l
	}
	l.Down, l.Up = s.Empty(Float32, ranks, parts[0].A.Size(1)), s.Empty(Float32, size)
	down, up := l.Down.View32(), l.Up.View32()
	numbers := make([]float64, 1+3*lowRankParts)
	numbers[0] = float64(n)
	for i, p := range parts {
		a, b := s.Contiguous(p.A).View32(), s.Contiguous(p.B).View32()
		down = down[copy(down, a):]
		turn(up[:len(b)], b, int(l.Parts[i].Width), int(l.Parts[i].Rank), float32(p.Scale))
		up = up[len(b):]
		numbers[1+3*i], numbers[2+3*i], numbers[3+3*i] = float64(l.Parts[i].Rank), float64(l.Parts[i].Width), p.Scale
	}
	for len(inputs) < 2*lowRankParts {
		inputs = append(inputs, parts[0].A) // in the place of none
	}
	s.record(step{op: stepLowRank, numbers: numbers, saved: inputs[:1], inputs: inputs,
		outputs: []Tensor{l.Down, l.Up}})
	return l
}

// turn makes to the transpose of from [rows, columns], times scale.
func turn(to, from []float32, rows, columns int, scale float32) {
	for k := range columns {
		line := to[k*rows : (k+1)*rows]
		for i := range line {
			line[i] = scale * from[i*columns+k]
		}
	}
}

func lowRankGradient(b backward) []Tensor {
	grads := make([]Tensor, 2*lowRankParts)
	in, atA, atB := b.saved[0].Size(1), int64(0), int64(0)
	// slope is n numbers of an output's slopes, zeros where there are none.
	slope := func(output int, at, n int64) []float32 {
		if !b.slopes[output].Defined() {
			return make([]float32, n)
		}
		return b.Contiguous(b.slopes[output]).View32()[at : at+n]
	}
	for i := range int(b.numbers[0]) {
		rank, width, scale := int64(b.numbers[1+3*i]), int64(b.numbers[2+3*i]), float32(b.numbers[3+3*i])
		if b.wanted[2*i] {
			grads[2*i] = b.Empty(Float32, rank, in)
			copy(grads[2*i].View32(), slope(0, atA, rank*in))
		}
		if b.wanted[2*i+1] {
			grads[2*i+1] = b.Empty(Float32, width, rank)
			turn(grads[2*i+1].View32(), slope(1, atB, rank*width), int(rank), int(width), scale)
		}
		atA, atB = atA+rank*in, atB+rank*width
	}
	return grads
}

// lowRankParts is how many parts the kernels take.
const lowRankParts = C.LOW_RANK_PARTS

// Weight is that of a projection.
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
	var y Tensor
	s.NoGrad(func() {
		if packed { // the change joins the product's sums
			c := lowRank(x, down, up, w.Packed.Out, l.Parts)
			c.low = low.floats()
			s.shared(lowRankKernel, unsafe.Pointer(&c), x.Size(0), x.Size(1))
			y = w.Packed.product(s, x, Epilogue{Bias: w.Bias}, &c)
			return
		}
		y = s.Projected(x, w.Matrix, w.Bias, w.InOut)
		c := lowRank(x, down, up, y.Size(1), l.Parts)
		c.y, c.low = y.pointer(), low.floats()
		s.shared(lowRankKernel, unsafe.Pointer(&c), x.Size(0), x.Size(1)+y.Size(1))
	})
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
	packed := b.numbers[0] == packedWeight
	if b.wanted[0] && !packed {
		grads[0] = b.Projected(dy, weight, Tensor{}, b.numbers[0] == outInWeight)
		c.dx = grads[0].pointer()
	}
	b.shared(lowRankGradKernel, unsafe.Pointer(&c), rows, in+out)
	if b.wanted[0] && packed {
		change := C.popri_low_rank{parts: 1, ranks: c.ranks, low: c.dlow, up: c.down}
		change.rank[0], change.width[0] = c.ranks, c.in
		grads[0] = laidOut(weight, out, in, x.DType()).product(b.Scope, dy, Epilogue{}, &change)
	}
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
