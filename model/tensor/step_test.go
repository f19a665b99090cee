package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// stepCases are operations with a gradient of this package, of random inputs of the shapes given.
var stepCases = []struct {
	name   string
	inputs [][]int64
	f      func(s *Scope, in []Tensor) []Tensor
}{
	{"RMSNorm", [][]int64{{3, 67, 140}, {140}}, func(s *Scope, in []Tensor) []Tensor {
		return []Tensor{s.RMSNorm(in[0], s.To(in[1], Float32), 1e-5)}
	}},
	{"LayerNorm", [][]int64{{3, 67, 140}, {140}, {140}}, func(s *Scope, in []Tensor) []Tensor {
		return []Tensor{s.LayerNorm(in[0], s.To(in[1], Float32), s.To(in[2], Float32), 1e-5)}
	}},
	{"LayerNorm, frozen", [][]int64{{3, 67, 70}}, func(s *Scope, in []Tensor) []Tensor {
		return []Tensor{s.LayerNorm(in[0], draws32(s, Float32, 3, 70), draws32(s, Float32, 4, 70), 1e-5)}
	}},
	{"RMSNorm beside", [][]int64{{3, 67, 75}, {75}}, func(s *Scope, in []Tensor) []Tensor {
		y, same := s.RMSNormResidual(in[0], s.To(in[1], Float32), 1e-5)
		return []Tensor{y, s.Mul(same, same)}
	}},
	{"LayerNorm beside", [][]int64{{3, 67, 75}, {75}, {75}}, func(s *Scope, in []Tensor) []Tensor {
		y, same := s.LayerNormResidual(in[0], s.To(in[1], Float32), s.To(in[2], Float32), 1e-5)
		return []Tensor{y, s.Mul(same, same)}
	}},
	{"only beside a norm", [][]int64{{3, 67, 75}}, func(s *Scope, in []Tensor) []Tensor {
		_, same := s.RMSNormResidual(in[0], draws32(s, Float32, 3, 75), 1e-5)
		return []Tensor{s.Mul(same, same)}
	}},
	{"Drop", [][]int64{{4, 70, 75}}, func(s *Scope, in []Tensor) []Tensor {
		return []Tensor{s.Drop(in[0], Dropout{0.3, 1<<63 + 5})}
	}},
	{"SwiGLU", [][]int64{{5, 70, 2 * 75}}, func(s *Scope, in []Tensor) []Tensor { return []Tensor{s.SwiGLU(in[0])} }},
	{"GeluTanh", [][]int64{{5, 70, 75}}, func(s *Scope, in []Tensor) []Tensor { return []Tensor{s.geluTanh(in[0])} }},
	{"SplitHeads", [][]int64{{2, 40, (4 + 2*2) * 36}}, func(s *Scope, in []Tensor) []Tensor {
		q, k, v := s.SplitHeads(in[0], Tensor{}, Tensor{}, HeadShape{4, 2, 36})
		return []Tensor{q, k, v}
	}},
	{"SplitHeads turned", [][]int64{{2, 40, (4 + 2*2) * 36}}, func(s *Scope, in []Tensor) []Tensor {
		q, k, v := s.SplitHeads(in[0], draws32(s, in[0].DType(), 3, 1, 40, 1, 36),
			draws32(s, in[0].DType(), 4, 1, 40, 1, 36), HeadShape{4, 2, 36})
		return []Tensor{q, k, v}
	}},
	{"SplitHeads turned by row", [][]int64{{2, 40, (4 + 2*2) * 32}}, func(s *Scope, in []Tensor) []Tensor {
		q, k, _ := s.SplitHeads(in[0], draws32(s, in[0].DType(), 3, 2, 40, 1, 32),
			draws32(s, in[0].DType(), 4, 2, 40, 1, 32), HeadShape{4, 2, 32})
		return []Tensor{q, k} // the values have no gradient
	}},
	{"Adapted", [][]int64{{67, 40}, {7, 40}, {3*20 + 4*17}}, func(s *Scope, in []Tensor) []Tensor {
		d := in[0].DType()
		l := LowRank{s.To(in[1], Float32), s.To(in[2], Float32), []lowRankPart{{3, 0, 20}, {4, 25, 17}}}
		w := Weight{Matrix: draws32(s, d, 3, 40, 50), Bias: draws32(s, d, 4, 50), InOut: true}
		return []Tensor{s.Adapted(in[0], w, l, Tensor{})}
	}},
	{"Adapted alone", [][]int64{{600, 48}, {4, 48}, {4 * 70}}, func(s *Scope, in []Tensor) []Tensor {
		l := LowRank{s.To(in[1], Float32), s.To(in[2], Float32), []lowRankPart{{4, 0, 70}}}
		return []Tensor{s.Adapted(in[0], Weight{Matrix: draws32(s, in[0].DType(), 3, 70, 48)}, l, Tensor{})}
	}},
	{"Adapted, packed", [][]int64{{70, 48}, {4, 48}, {4 * 70}}, func(s *Scope, in []Tensor) []Tensor {
		d := in[0].DType()
		w := s.laidOut(Weight{Matrix: draws32(s, d, 3, 48, 70), Bias: draws32(s, d, 4, 70), InOut: true}, false)
		l := LowRank{s.To(in[1], Float32), s.To(in[2], Float32), []lowRankPart{{4, 0, 70}}}
		return []Tensor{s.Adapted(in[0], w, l, Tensor{})}
	}},
	{"Adapted onto, packed", [][]int64{{70, 48}, {70, 70}, {4, 48}, {4 * 70}}, func(s *Scope, in []Tensor) []Tensor {
		w := s.laidOut(Weight{Matrix: draws32(s, in[0].DType(), 3, 70, 48)}, false)
		l := LowRank{s.To(in[2], Float32), s.To(in[3], Float32), []lowRankPart{{4, 0, 70}}}
		return []Tensor{s.Adapted(in[0], w, l, in[1]), s.Adapted(in[0], w, LowRank{}, in[1])}
	}},
	{"Adapted in parts, packed", [][]int64{{45, 48}, {7, 48}, {3*20 + 4*37}}, func(s *Scope, in []Tensor) []Tensor {
		d := in[0].DType()
		w := s.laidOut(Weight{Matrix: draws32(s, d, 3, 70, 48)}, false)
		l := LowRank{s.To(in[1], Float32), s.To(in[2], Float32), []lowRankPart{{3, 2, 20}, {4, 25, 37}}}
		return []Tensor{s.Adapted(in[0], w, l, Tensor{})}
	}},
	{"Adapted gates", [][]int64{{45, 48}, {4, 48}, {4 * 64}}, func(s *Scope, in []Tensor) []Tensor {
		w := s.laidOut(Weight{Matrix: draws32(s, in[0].DType(), 3, 64, 48)}, true)
		l := LowRank{s.To(in[1], Float32), s.To(in[2], Float32), []lowRankPart{{4, 0, 64}}}
		return []Tensor{s.Adapted(in[0], w, l, Tensor{})}
	}},
	{"MLP", [][]int64{{75, 48}, {75, 48}, {4, 48}, {4 * 70}, {3, 70}, {3 * 48}}, func(s *Scope, in []Tensor) []Tensor {
		d := in[0].DType()
		up := Weight{Matrix: small(s, d, 3, 48, 70), Bias: draws32(s, d, 4, 70), InOut: true}
		down := Weight{Matrix: small(s, d, 5, 70, 48), Bias: draws32(s, d, 6, 48), InOut: true}
		return []Tensor{s.mlp(in, MLP{Up: up, Down: down,
			UpChange:   LowRank{s.To(in[2], Float32), s.To(in[3], Float32), []lowRankPart{{4, 0, 70}}},
			DownChange: LowRank{s.To(in[4], Float32), s.To(in[5], Float32), []lowRankPart{{3, 0, 48}}}})}
	}},
	{"MLP with gates", [][]int64{{45, 48}, {45, 48}, {7, 48}, {3*96 + 4*96}, {2, 96}, {2 * 48}},
		func(s *Scope, in []Tensor) []Tensor {
			d := in[0].DType()
			parts := []lowRankPart{{3, 0, 96}, {4, 96, 96}}
			return []Tensor{s.mlp(in, MLP{Up: Weight{Matrix: small(s, d, 3, 192, 48)},
				Down: Weight{Matrix: small(s, d, 5, 48, 96)}, Gates: true,
				UpChange:   LowRank{s.To(in[2], Float32), s.To(in[3], Float32), parts},
				DownChange: LowRank{s.To(in[4], Float32), s.To(in[5], Float32), []lowRankPart{{2, 0, 48}}}})}
		}},
	{"MLP, partly adapted", [][]int64{{33, 48}, {33, 48}, {2, 96}, {2 * 48}}, func(s *Scope, in []Tensor) []Tensor {
		d := in[0].DType()
		return []Tensor{s.mlp(in, MLP{Up: Weight{Matrix: small(s, d, 3, 192, 48)},
			Down: Weight{Matrix: small(s, d, 5, 48, 96)}, Gates: true,
			DownChange: LowRank{s.To(in[2], Float32), s.To(in[3], Float32), []lowRankPart{{2, 0, 48}}}})}
	}},
	{"LowRank", [][]int64{{3, 40}, {20, 3}, {4, 40}, {17, 4}}, func(s *Scope, in []Tensor) []Tensor {
		f := func(i int) Tensor { return s.To(in[i], Float32) }
		l := s.LowRank([]Factors{{f(0), f(1), 0.5, 0}, {f(2), f(3), 2, 25}})
		return []Tensor{l.Down, l.Up}
	}},
	{"MaskedSoftmax", [][]int64{{2, 3, 60, 60}}, func(s *Scope, in []Tensor) []Tensor {
		hidden := s.MulScalar(s.AddScalar(s.Tril(s.Full(Float32, 1, 60, 60), 0), -1), 1e30)
		return []Tensor{s.MaskedSoftmax(in[0], s.To(hidden, in[0].DType()), 0.7)}
	}},
	{"MaskedSoftmax by batch", [][]int64{{2, 3, 50, 61}}, func(s *Scope, in []Tensor) []Tensor {
		return []Tensor{s.MaskedSoftmax(in[0], draws32(s, in[0].DType(), 5, 2, 1, 1, 61), 1.3)}
	}},
}

// small are draws32 of a weight that does not make its results large.
func small(s *Scope, d DType, seed uint64, shape ...int64) Tensor {
	return s.MulScalar(draws32(s, d, seed, shape...), 0.15)
}

// laidOut is w laid out where the CPU can, as a weight of gates if asked to.
func (s *Scope) laidOut(w Weight, gated bool) Weight {
	if d := w.Matrix.DType(); CanPack(d) {
		w.Packed, w.Back = s.Pack(w.Matrix, w.InOut, gated, d), s.Pack(w.Matrix, !w.InOut, false, d)
		s.Own(w.Packed.data)
		s.Own(w.Back.data)
	}
	return w
}

// mlp is [Scope.MLP] of x and the residual, or the operations that it is made of.
func (s *Scope) mlp(in []Tensor, m MLP) Tensor {
	x, residual := in[0], in[1]
	m.Up, m.Down = s.laidOut(m.Up, m.Gates), s.laidOut(m.Down, false)
	if s.CanMLP(m, x.DType()) {
		return s.MLP(x, residual, m)
	}
	projected := func(x Tensor, w Weight, l LowRank) Tensor {
		if w.Packed, w.Back = nil, nil; len(l.Parts) == 0 {
			return s.Projected(x, w.Matrix, w.Bias, w.InOut)
		}
		return s.Adapted(x, w, l, Tensor{})
	}
	h := projected(x, m.Up, m.UpChange)
	if m.Gates {
		h = s.SwiGLU(h)
	} else {
		h = s.geluTanh(h)
	}
	return s.Add(residual, projected(h, m.Down, m.DownChange))
}

// draws32 are normal numbers of the seed, of type d.
func draws32(s *Scope, d DType, seed uint64, shape ...int64) Tensor {
	n := int64(1)
	for _, k := range shape {
		n *= k
	}
	return s.To(s.FromFloat32(normals(rand.New(rand.NewPCG(seed, 1)), int(n), 1), shape...), d)
}

// stepResult is the outputs of a case and the gradients of their products with random numbers.
func stepResult(s *Scope, d DType, i int) (all [][]float64) {
	c := stepCases[i]
	var in []Tensor
	for k, shape := range c.inputs {
		x := draws32(s, d, uint64(10*i+k), shape...)
		s.RequireGrad(x, true)
		in = append(in, x)
	}
	s.WithGrad(func() {
		var loss Tensor
		for k, y := range c.f(s, in) {
			all = append(all, s.Float64s(s.Detach(y)))
			part := s.Sum(s.To(s.Mul(y, draws32(s, d, uint64(100+k), y.Shape()...)), Float32))
			if loss.Defined() {
				part = s.Add(loss, part)
			}
			loss = part
		}
		for _, g := range s.Backward(loss, in) {
			all = append(all, s.Float64s(g))
		}
	})
	return all
}

// The gradients of the kernels equal libtorch's, and the same on any number of threads.
func TestStepGradients(t *testing.T) {
	defer SetThreads(Threads())
	for i, c := range stepCases {
		for _, d := range []DType{Float32, BFloat16} {
			t.Run(fmt.Sprint(c.name, " ", d), func(t *testing.T) {
				var of [][][]float64
				for _, threads := range []int{1, 2, 3} {
					SetThreads(threads)
					of = append(of,
						slices.Concat(both(t, func(s *Scope) [][]float64 { return stepResult(s, d, i) })...))
				}
				n := len(of[0]) / 2 // the kernel's results, then libtorch's
				for k := range of[1:] {
					for r := range n {
						// A GPU's threads are its own, and the CPU's product in its place may round by their number.
						if !emulated && !slices.Equal(of[0][r], of[k+1][r]) {
							t.Errorf("result %d with %d threads is another one", r, k+2)
						}
					}
				}
				// bfloat16 has eight bits, and libtorch's operations round after each of several.
				tolerance := map[DType]float64{Float32: 3e-6, BFloat16: 0.03}[d]
				for r := range n {
					scale := 0.0
					for _, v := range of[0][n+r] {
						scale = max(scale, math.Abs(v))
					}
					if scale == 0 {
						t.Fatalf("result %d is zero", r)
					}
					for k, want := range of[0][n+r] {
						if got := of[0][r][k]; !(math.Abs(got-want) <= tolerance*scale) {
							t.Fatalf("result %d, value %d is %g, want %g", r, k, got, want)
						}
					}
				}
			})
		}
	}
}

// A score that is not a number makes its row not a number: it must not look hidden.
func TestSoftmaxKeepsNaN(t *testing.T) {
	err := Run(func(s *Scope) error {
		v := make([]float32, 40)
		v[3] = float32(math.NaN())
		y := s.Float64s(s.MaskedSoftmax(s.FromFloat32(v, 1, 1, 2, 20), s.Zeros(Float32, 2, 20), 1))
		if !math.IsNaN(y[0]) || math.IsNaN(y[20]) {
			t.Errorf("rows begin with %g and %g", y[0], y[20])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A graph is used once, and an error of a step reaches the caller of the backward pass.
func TestStepErrors(t *testing.T) {
	if portable {
		t.Skip("there are no steps of our own")
	}
	backwards := func(again bool) error {
		return Run(func(s *Scope) error {
			x := draws32(s, Float32, 1, 4, 32)
			s.RequireGrad(x, true)
			s.WithGrad(func() {
				y := s.Sum(s.SwiGLU(x))
				s.Backward(y, []Tensor{x})
				if again {
					s.Backward(y, []Tensor{x})
				}
			})
			return nil
		})
	}
	if err := backwards(false); err != nil {
		t.Fatal(err)
	}
	if err := backwards(true); err == nil || !strings.Contains(err.Error(), "earlier backward pass") {
		t.Errorf("a second backward pass: %v", err)
	}
	old := gradients[stepSwiGLU].of
	defer func() { gradients[stepSwiGLU].of = old }()
	gradients[stepSwiGLU].of = func(backward) []Tensor { panic(&Error{Op: "SwiGLU", Text: "no memory"}) }
	if err := backwards(false); err == nil || !strings.Contains(err.Error(), "no memory") {
		t.Errorf("a step that fails: %v", err)
	}
}

// Handles that a backward pass makes are freed.
func TestStepLeaks(t *testing.T) {
	before := Live()
	for i := range stepCases {
		if err := Run(func(s *Scope) error { stepResult(s, Float32, i); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if Live() != before {
		t.Errorf("%d handles are left", Live()-before)
	}
}

// Hidden columns at the end of a row, as padding has, do not change a bit of its softmax.
func TestSoftmaxIgnoresWidth(t *testing.T) {
	if portable {
		t.Skip("libtorch makes no such promise")
	}
	err := Run(func(s *Scope) error {
		x := draws32(s, Float32, 9, 1, 2, 5, 37)
		wide := s.Contiguous(s.Cat(3, x, draws32(s, Float32, 10, 1, 2, 5, 24)))
		mask := s.Cat(1, s.Zeros(Float32, 5, 37), s.Full(Float32, -1e30, 5, 24))
		got := s.Float32s(s.Contiguous(s.Narrow(s.MaskedSoftmax(wide, mask, 1.7), 3, 0, 37)))
		if want := s.Float32s(s.MaskedSoftmax(x, s.Zeros(Float32, 5, 37), 1.7)); !slices.Equal(got, want) {
			t.Error("the softmax is another one")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
