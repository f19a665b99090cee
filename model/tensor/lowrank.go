package tensor

// #include "torch.h"
import "C"

import "unsafe"

// LowRank is the change of a projection's outputs by an adapter: x·downᵀ·up, where each part of the outputs may have
// factors of its own.
type LowRank struct {
	Down  Tensor // float32 [ranks, in], the factors of the parts one after the other
	Up    Tensor // float32, the matrices [rank, width] of the parts one after the other
	Parts []lowRankPart
}

// lowRankPart is a part of the outputs.
type lowRankPart struct{ Rank, Offset, Width int64 }

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
		l.Parts = append(l.Parts, lowRankPart{rank, p.Offset, width})
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
	down, up := l.Down.view32(), l.Up.view32()
	numbers := make([]float64, 1+3*lowRankParts)
	numbers[0] = float64(n)
	for i, p := range parts {
		a, b := s.Contiguous(p.A).view32(), s.Contiguous(p.B).view32()
		down = down[copy(down, a):]
		transposeScaled(up[:len(b)], b, int(l.Parts[i].Width), int(l.Parts[i].Rank), float32(p.Scale))
		up = up[len(b):]
		numbers[1+3*i], numbers[2+3*i], numbers[3+3*i] = float64(l.Parts[i].Rank), float64(l.Parts[i].Width), p.Scale
	}
	for len(inputs) < 2*lowRankParts {
		inputs = append(inputs, parts[0].A) // stands for none
	}
	s.record(step{op: stepLowRank, numbers: numbers, saved: inputs[:1], inputs: inputs, outputs: []Tensor{l.Down, l.Up}})
	return l
}

// transposeScaled sets to to the transpose of from [rows, columns], times scale.
func transposeScaled(to, from []float32, rows, columns int, scale float32) {
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
	// outGrad is n elements of the gradient of an output, zeros where there is none.
	outGrad := func(output int, at, n int64) []float32 {
		if !b.outGrads[output].Defined() {
			return make([]float32, n)
		}
		return b.Contiguous(b.outGrads[output]).view32()[at : at+n]
	}
	for i := range int(b.numbers[0]) {
		rank, width, scale := int64(b.numbers[1+3*i]), int64(b.numbers[2+3*i]), float32(b.numbers[3+3*i])
		if b.wanted[2*i] {
			grads[2*i] = b.Empty(Float32, rank, in)
			copy(grads[2*i].view32(), outGrad(0, atA, rank*in))
		}
		if b.wanted[2*i+1] {
			grads[2*i+1] = b.Empty(Float32, width, rank)
			transposeScaled(grads[2*i+1].view32(), outGrad(1, atB, rank*width), int(rank), int(width), scale)
		}
		atA, atB = atA+rank*in, atB+rank*width
	}
	return grads
}

// lowRankParts is how many parts the kernels take.
const lowRankParts = C.LOW_RANK_PARTS

// Weight is the weight of a projection.
type Weight struct {
	Matrix, Bias Tensor // [out, in] or, if InOut, [in, out]; [out] or none
	InOut        bool
	// Packed is the matrix laid out, Back its transpose, for the gradient; nil for none.
	Packed, Back *Packed
}

// LaidOut reports whether w is laid out, with its transpose, for products of type d.
func (w Weight) LaidOut(d DType) bool { return w.Packed != nil && w.Back != nil && w.Packed.DType == d }

// takesLaidOut reports whether steps of this scope take w as it is laid out.
func (s *Scope) takesLaidOut(w Weight, d DType) bool {
	return w.LaidOut(d) && !s.portable && !s.gpu && s.device == CPU
}

// Adapted returns the projection of x [n, in] by w plus the change of l, if that has parts, and residual [n, out], if
// that is defined. It has a gradient for x, l and residual. x, matrix, bias and residual have one type; what l adds is
// computed in float32, and rounded once.
func (s *Scope) Adapted(x Tensor, w Weight, l LowRank, residual Tensor) Tensor {
	x = s.Contiguous(x)
	switch {
	case s.takesLaidOut(w, x.DType()) && len(l.Parts) <= lowRankParts:
		return s.adaptedLaidOut(x, w, l, residual)
	case residual.Defined():
		return s.Add(residual, s.Adapted(x, w, l, Tensor{}))
	case len(l.Parts) == 0:
		return s.Projected(x, w.Matrix, w.Bias, w.InOut)
	}
	if !s.fused("Adapted", x, w.Matrix, l.Down, l.Up) || len(l.Parts) > lowRankParts ||
		x.DType() != Float32 && x.DType() != BFloat16 {
		return s.portableAdapted(x, w, l)
	}
	var low Tensor
	down, up := s.Contiguous(l.Down), s.Contiguous(l.Up)
	kept := []Tensor{down, up} // in the form that the backward pass takes
	numbers := make([]float64, 2+3*lowRankParts)
	if w.InOut {
		numbers[0] = inOutWeight
	}
	partNumbers(numbers[1:], l.Parts)
	var y Tensor
	s.NoGrad(func() {
		y = s.Projected(x, w.Matrix, w.Bias, w.InOut)
		if s.gpu {
			f := s.factored(down, up, l.Parts, y.Size(1), x.DType())
			low, kept = f.add(y, x), []Tensor{f.down, f.up}
			return
		}
		low = s.Empty(Float32, x.Size(0), down.Size(0))
		c := lowRank(x, down, up, y.Size(1), l.Parts)
		c.y, c.low = y.pointer(), low.floats()
		s.shared(lowRankKernel, unsafe.Pointer(&c), x.Size(0), x.Size(1)+y.Size(1))
	})
	s.record(step{op: stepAdapted, numbers: numbers, saved: []Tensor{x, w.Matrix, kept[0], kept[1], low},
		inputs: []Tensor{x, down, up}, outputs: []Tensor{y}})
	return y
}

// adaptedLaidOut is Adapted by a weight that is laid out: the change and the residual join the product's sums.
func (s *Scope) adaptedLaidOut(x Tensor, w Weight, l LowRank, residual Tensor) (y Tensor) {
	numbers := make([]float64, 2+3*lowRankParts)
	partNumbers(numbers[1:], l.Parts)
	inputs, saved := s.changes(x, l)
	inputs = append([]Tensor{x}, append(inputs, x)...)
	if residual.Defined() {
		residual = s.Contiguous(residual)
		numbers[0], inputs[3] = 1, residual
	}
	s.NoGrad(func() {
		y = w.Packed.product(s, x, Epilogue{Bias: w.Bias, Residual: residual},
			inner{added: s.added(x, w.Packed.Out, l, saved), whole: true})
	})
	s.record(step{op: stepAdaptedLaidOut, numbers: numbers, saved: append([]Tensor{x, w.Back.data}, saved...),
		inputs: inputs, outputs: []Tensor{y}})
	return y
}

func adaptedLaidOutGradient(b backward) []Tensor {
	x, back := b.saved[0], b.saved[1]
	dy := b.Contiguous(b.outGrads[0])
	c := b.change(x, b.saved[2:], partsOf(b.numbers[1:]))
	grads := make([]Tensor, 4)
	added := c.lowGrads(dy, Tensor{})
	if b.wanted[0] {
		grads[0] = laidOut(back, dy.Size(1), x.Size(1), x.DType()).product(b.Scope, dy, Epilogue{}, inner{added: added})
	}
	grads[1], grads[2] = c.factors(x, dy, b.wanted[1], b.wanted[2])
	if b.wanted[3] && b.numbers[0] != 0 {
		grads[3] = b.Detach(dy)
	}
	return grads
}

// changes returns what an adapter's change of a projection of x adds to the inputs of a step, and to its saved tensors:
// the factors and room for x·downᵀ. x stands for tensors that do not exist.
func (s *Scope) changes(x Tensor, l LowRank) (inputs, saved []Tensor) {
	if len(l.Parts) == 0 {
		return []Tensor{x, x}, []Tensor{x, x, x}
	}
	return []Tensor{l.Down, l.Up},
		[]Tensor{s.Contiguous(l.Down), s.Contiguous(l.Up), s.Empty(Float32, x.Size(0), l.Down.Size(0))}
}

// added computes x·downᵀ into its saved tensor, and returns the change in the form that a product adds.
func (s *Scope) added(x Tensor, out int64, l LowRank, saved []Tensor) *C.popri_low_rank {
	if len(l.Parts) == 0 {
		return nil
	}
	c := lowRank(x, saved[0], saved[1], out, l.Parts)
	c.low = saved[2].floats()
	s.shared(lowRankKernel, unsafe.Pointer(&c), x.Size(0), x.Size(1))
	return &c
}

// partNumbers writes parts as numbers of a step, and partsOf reads them.
func partNumbers(numbers []float64, parts []lowRankPart) {
	numbers[0] = float64(len(parts))
	for i, p := range parts {
		numbers[1+3*i], numbers[2+3*i], numbers[3+3*i] = float64(p.Rank), float64(p.Offset), float64(p.Width)
	}
}

func partsOf(numbers []float64) (parts []lowRankPart) {
	for i := range int(numbers[0]) {
		n := numbers[1+3*i:]
		parts = append(parts, lowRankPart{int64(n[0]), int64(n[1]), int64(n[2])})
	}
	return parts
}

// How a step keeps its weight.
const (
	outInWeight = iota
	inOutWeight
)

// Projected returns x [n, in] times a weight [out, in] or, if inOut, [in, out], plus bias [out], which may be none.
func (s *Scope) Projected(x, weight, bias Tensor, inOut bool) Tensor {
	switch {
	case !inOut:
		return s.Linear(x, weight, bias)
	case !bias.Defined():
		return s.MatMul(x, weight)
	}
	return s.addMM(bias, x, weight)
}

func lowRank(x, down, up Tensor, out int64, parts []lowRankPart) C.popri_low_rank {
	c := C.popri_low_rank{bf16: cbool(x.DType() == BFloat16), in: C.int64_t(x.Size(1)), out: C.int64_t(out),
		ranks: C.int64_t(down.Size(0)), parts: C.int(len(parts)), x: x.pointer(),
		down: (*C.float)(down.pointer()), up: (*C.float)(up.pointer())}
	for i, p := range parts {
		c.rank[i], c.offset[i], c.width[i] = C.int64_t(p.Rank), C.int64_t(p.Offset), C.int64_t(p.Width)
	}
	return c
}

func adaptedGradient(b backward) []Tensor {
	x, weight := b.saved[0], b.saved[1]
	dy, parts := b.Contiguous(b.outGrads[0]), partsOf(b.numbers[1:])
	grads := make([]Tensor, 3)
	if b.wanted[0] {
		grads[0] = b.Projected(dy, weight, Tensor{}, b.numbers[0] == outInWeight)
	}
	if b.gpu {
		f := factored{b.Scope, b.saved[2], b.saved[3], b.saved[4].Size(1), parts, x.DType()}
		grads[1], grads[2] = f.gradients(grads[0], x, dy, b.saved[4], b.wanted[1], b.wanted[2])
		return grads
	}
	c := b.change(x, b.saved[2:], parts)
	c.lowGrads(dy, grads[0])
	grads[1], grads[2] = c.factors(x, dy, b.wanted[1], b.wanted[2])
	return grads
}

// changeGradient is the backward pass of what an adapter changes of a projection of x.
type changeGradient struct {
	backward
	like, down, up, low, dlow Tensor // like has the rows, the width and the type of x
	parts                     []lowRankPart
}

// change begins the backward pass; saved are the factors down and up, and low.
func (b backward) change(like Tensor, saved []Tensor, parts []lowRankPart) *changeGradient {
	c := &changeGradient{backward: b, like: like, parts: parts}
	if len(parts) > 0 {
		c.down, c.up, c.low = saved[0], saved[1], saved[2]
		c.dlow = b.Empty(Float32, c.low.Shape()...)
	}
	return c
}

// lowGrads computes dlow from the gradient of the projection, adds its part of the gradient of x to dx, if that is
// defined, and returns that part for a product that adds it.
func (c *changeGradient) lowGrads(dy, dx Tensor) *C.popri_low_rank {
	if len(c.parts) == 0 {
		return nil
	}
	p := lowRank(c.like, c.down, c.up, dy.Size(1), c.parts)
	p.y, p.dlow = dy.pointer(), c.dlow.floats()
	if dx.Defined() {
		p.dx = dx.pointer()
	}
	c.shared(lowRankGradKernel, unsafe.Pointer(&p), dy.Size(0), c.like.Size(1)+dy.Size(1))
	part := C.popri_low_rank{parts: 1, ranks: p.ranks, low: p.dlow, up: p.down}
	part.rank[0], part.width[0] = p.ranks, p.in
	return &part
}

// factors returns the gradients of down and up that are wanted, of x and the gradient of the projection.
func (c *changeGradient) factors(x, dy Tensor, wantDown, wantUp bool) (down, up Tensor) {
	if len(c.parts) == 0 {
		return down, up
	}
	if wantDown {
		down = c.Empty(Float32, c.down.Shape()...)
		c.sums(x, c.dlow, 0, 0, c.down.Size(0), x.Size(1), down)
	}
	if wantUp {
		up = c.Empty(Float32, c.up.Shape()...)
		at, first, flat := int64(0), int64(0), c.View(up, -1)
		for _, p := range c.parts {
			c.sums(dy, c.low, first, p.Offset, p.Rank, p.Width, c.Narrow(flat, 0, at, p.Rank*p.Width))
			at, first = at+p.Rank*p.Width, first+p.Rank
		}
	}
	return down, up
}

// sums computes lowᵀ·m for rank columns of low, from first on, and width columns of m, from offset on.
func (b backward) sums(m, low Tensor, first, offset, rank, width int64, to Tensor) {
	rows := m.Size(0)
	p := C.popri_low_rank_sum{bf16: cbool(m.DType() == BFloat16), rows: C.int64_t(rows), ranks: C.int64_t(low.Size(1)),
		rank: C.int64_t(rank), low: (*C.float)(unsafe.Add(low.pointer(), 4*first)), m: m.pointer(),
		stride: C.int64_t(m.Size(1)), offset: C.int64_t(offset), width: C.int64_t(width), sums: to.floats()}
	b.shared(lowRankSumsKernel, unsafe.Pointer(&p), (width+C.LOW_RANK_COLUMNS-1)/C.LOW_RANK_COLUMNS, C.LOW_RANK_COLUMNS*rows)
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

// factored is a [LowRank] for a GPU, whose matrix units do the products with it: down [k, in] and up [k, out], of which
// the parts' matrices are blocks. In bfloat16 they hold the float32 values twice, rounded and what rounding took away, so
// k is twice the ranks: changes of a factor that bfloat16 does not show still count.
type factored struct {
	*Scope
	down, up Tensor
	ranks    int64
	parts    []lowRankPart
	of       DType
}

func (s *Scope) factored(down, up Tensor, parts []lowRankPart, out int64, of DType) factored {
	f := factored{s, Tensor{}, Tensor{}, down.Size(0), parts, of}
	blocks := s.Zeros(Float32, f.ranks, out)
	f.each(up, blocks, func(part, block Tensor) { s.Copy_(block, part) })
	f.down, f.up = f.halves(down), f.halves(blocks)
	return f
}

// each calls do with each part of a flat tensor of the parts' matrices and its block of [ranks, out].
func (f factored) each(flat, blocks Tensor, do func(part, block Tensor)) {
	flat = f.View(flat, -1)
	at, rank := int64(0), int64(0)
	for _, p := range f.parts {
		do(f.View(f.Narrow(flat, 0, at, p.Rank*p.Width), p.Rank, p.Width),
			f.Narrow(f.Narrow(blocks, 0, rank, p.Rank), 1, p.Offset, p.Width))
		at, rank = at+p.Rank*p.Width, rank+p.Rank
	}
}

// halves returns float32 m, or its rounded values above what rounding took away.
func (f factored) halves(m Tensor) Tensor {
	if f.of == Float32 {
		return m
	}
	high := f.To(m, f.of)
	return f.Cat(0, high, f.To(f.Sub(m, f.To(high, Float32)), f.of))
}

// low is the float32 product [n, ranks] of x with the transpose of down or up.
func (f factored) low(x, of Tensor) Tensor {
	y := f.To(f.Linear(x, of, Tensor{}), Float32)
	if f.of == Float32 {
		return y
	}
	return f.Add(f.Narrow(y, 1, 0, f.ranks), f.Narrow(y, 1, f.ranks, f.ranks))
}

// addTo adds low, of [factored.low], times down or up to y.
func (f factored) addTo(y, low, of Tensor) {
	low = f.To(low, f.of)
	if f.of != Float32 {
		low = f.Cat(1, low, low)
	}
	f.AddMM_(y, low, of)
}

// add adds the change for x to y and returns x·downᵀ.
func (f factored) add(y, x Tensor) (low Tensor) {
	low = f.low(x, f.down)
	f.addTo(y, low, f.up)
	return low
}

// gradients adds to dx, if that is defined, and returns the gradients of down and up that are wanted, from what
// [factored.add] was given and has returned, and the gradient dy of its result.
func (f factored) gradients(dx, x, dy, low Tensor, wantDown, wantUp bool) (down, up Tensor) {
	dlow := f.low(dy, f.up)
	if dx.Defined() {
		f.addTo(dx, dlow, f.down)
	}
	product := func(low, m Tensor) Tensor { return f.To(f.MatMul(f.Transpose(f.To(low, f.of), 0, 1), m), Float32) }
	if wantDown {
		down = product(dlow, x)
	}
	if wantUp {
		size := int64(0)
		for _, p := range f.parts {
			size += p.Rank * p.Width
		}
		up = f.Empty(Float32, size)
		f.each(up, product(low, dy), func(part, block Tensor) { f.Copy_(part, block) })
	}
	return down, up
}
