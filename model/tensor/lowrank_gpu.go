package tensor

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
