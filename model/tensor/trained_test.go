package tensor

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCrossProduct compares with sums in float64, for shapes that fill tiles and that do not, and in several chunks.
func TestCrossProduct(t *testing.T) {
	if !MatrixUnit() {
		t.Skip("this CPU has no matrix unit")
	}
	random := rand.New(rand.NewPCG(9, 1))
	for _, shape := range [][3]int64{{1, 1, 1}, {33, 17, 40}, {64, 96, 32}, {1500, 70, 50}, {5, 600, 33}} {
		n, rows, columns := shape[0], shape[1], shape[2]
		a, b := normals(random, int(n*rows), 1), normals(random, int(n*columns), 1)
		sum := normals(random, int(rows*columns), 1)
		for _, d := range []DType{Float32, BFloat16} {
			for _, threads := range []int{1, 3} {
				err := Run(func(s *Scope) error {
					s.threads = threads
					x, y := s.To(s.FromFloat32(a, n, rows), d), s.To(s.FromFloat32(b, n, columns), d)
					plain := s.Float64s(s.CrossProduct(x, y, Tensor{}, Float32))
					rounded := s.Float64s(s.CrossProduct(x, y, Tensor{}, BFloat16))
					total := s.FromFloat32(sum, rows, columns)
					added := s.Float64s(s.CrossProduct(x, y, total, Float32))
					if !slices.Equal(added, s.Float64s(total)) {
						t.Error("the sum is not where it was")
					}
					left, right := s.Float64s(x), s.Float64s(y)
					for i := range rows {
						for k := range columns {
							want, size := 0.0, 0.0
							for r := range n {
								z := left[r*rows+i] * right[r*columns+k]
								want, size = want+z, size+math.Abs(z)
							}
							at := i*columns + k
							if e := math.Abs(plain[at] - want); !(e <= 1e-6*(1+size)) {
								t.Fatalf("%v %v: sum %d is off by %g of %g", shape, d, at, e, size)
							}
							if e := math.Abs(rounded[at] - plain[at]); !(e <= math.Abs(plain[at])/256) {
								t.Fatalf("%v %v: sum %d is %g in bfloat16, want %g", shape, d, at, rounded[at], plain[at])
							}
							if e := math.Abs(added[at] - plain[at] - float64(sum[at])); !(e <= 1e-6*(1+size)) {
								t.Fatalf("%v %v: sum %d is off by %g where something was", shape, d, at, e)
							}
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestTrained: a projection whose matrix is laid out has the values and gradients of libtorch's.
func TestTrained(t *testing.T) {
	if !MatrixUnit() {
		t.Skip("this CPU has no matrix unit")
	}
	const n, in, out = 75, 48, 100
	random := rand.New(rand.NewPCG(2, 8))
	xs, ws, bs, grads := normals(random, n*in, 1), normals(random, in*out, 0.1), normals(random, out, 1),
		normals(random, n*out, 1)
	for _, d := range []DType{Float32, BFloat16} {
		for _, inOut := range []bool{false, true} {
			for _, biased := range []bool{false, true} {
				err := Run(func(s *Scope) error {
					shape := []int64{out, in}
					if inOut {
						shape = []int64{in, out}
					}
					measure := func(trained bool) (all [][]float64) {
						leaf := func(x []float32, d DType, shape ...int64) Tensor {
							p := s.To(s.FromFloat32(x, shape...), d)
							s.RequireGrad(p, true)
							return p
						}
						x, w := leaf(xs, d, n, in), leaf(ws, d, shape...)
						wanted := []Tensor{x, w}
						var bias Tensor
						if biased {
							bias = leaf(bs, Float32, out)
							wanted = append(wanted, bias)
						}
						s.WithGrad(func() {
							var y Tensor
							if trained {
								constant := s.Detach(w)
								p, back := s.Pack(constant, inOut, false, d), s.Pack(constant, !inOut, false, d)
								defer p.Free()
								defer back.Free()
								y = s.Trained(x, Weight{Matrix: w, Bias: bias, InOut: inOut, Packed: p, Back: back})
							} else {
								if y = s.Projected(s.To(x, Float32), s.To(w, Float32), bias, inOut); d != Float32 {
									y = s.To(y, d)
								}
							}
							root := s.Sum(s.Mul(s.To(y, Float32), s.FromFloat32(grads, n, out)))
							all = append(all, s.Float64s(y))
							for _, g := range s.Backward(root, wanted) {
								all = append(all, s.Float64s(g))
							}
						})
						return all
					}
					got, want := measure(true), measure(false)
					bound := 1e-6
					if d == BFloat16 {
						bound = 0.005 // one rounding of each value
					}
					for k := range want {
						wrong, size := 0.0, 0.0
						for i, x := range want[k] {
							wrong, size = wrong+(got[k][i]-x)*(got[k][i]-x), size+x*x
						}
						if e := math.Sqrt(wrong / size); len(got[k]) != len(want[k]) || !(e < bound) {
							t.Errorf("%v, in·out %v, bias %v: result %d is off by %g", d, inOut, biased, k, e)
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
