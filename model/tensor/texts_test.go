package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestAttendTexts: attention within texts is the softmax of scores times values, with a bias or without.
func TestAttendTexts(t *testing.T) {
	skipOnDevice(t)
	t.Run("float32", func(t *testing.T) {
		attendTexts(t, Float32, 1e-5, false, 3, 16)
		attendTexts(t, Float32, 1e-5, true, 2, 32)
		attendTexts(t, Float32, 1e-5, true, 2, 80)
	})
	t.Run("bfloat16", func(t *testing.T) {
		if !CanPack(BFloat16) {
			t.Skip("this CPU has no products of bfloat16")
		}
		attendTexts(t, BFloat16, 0.02, false, 3, 32)
		attendTexts(t, BFloat16, 0.02, false, 2, 64)
	})
}

// skipOnDevice skips tests of what runs on the CPU alone, with kernels of our own.
func skipOnDevice(t *testing.T) {
	t.Helper()
	if OnDevice() {
		t.Skip("kernels for the CPU")
	}
}

func attendTexts(t *testing.T, dtype DType, tolerance float64, shifted bool, heads, dim int) {
	random := rand.New(rand.NewPCG(1, 2))
	starts := []int32{0, 1, 1, 14, 46, 79, 200}
	n, width, most := int(starts[len(starts)-1]), heads*dim, 130
	scale := 1.0
	if dtype == Float32 { // scores of one size, which decides how exact float32 can be, for heads of any
		scale = math.Sqrt(32 / float64(dim))
	}
	values := func(n int) []float32 { return normals(random, n, scale) }
	given, shifts, table := values(n*3*width), values(3*width), values(heads*most*most)
	for _, biased := range []bool{false, true} {
		err := Run(func(s *Scope) error {
			qkv := s.To(s.FromFloat32(given, int64(n), int64(3*width)), dtype)
			x := s.Float64s(qkv)
			var shift, bias Tensor
			if shifted {
				shift = s.FromFloat32(shifts, int64(3*width))
				for i := range x {
					x[i] += float64(shifts[i%(3*width)])
				}
			}
			if biased {
				bias = s.FromFloat32(table, int64(heads), int64(most), int64(most))
			}
			got := s.Float64s(s.AttendTexts(qkv, shift, starts, heads, bias))
			for i := range starts[1:] {
				from, to := int(starts[i]), int(starts[i+1])
				for h := range heads {
					for a := from; a < to; a++ {
						sum, want := 0.0, make([]float64, dim)
						for b := from; b < to; b++ {
							score := 0.0
							for d := range dim {
								score += x[a*3*width+h*dim+d] * x[b*3*width+width+h*dim+d]
							}
							if biased {
								score += float64(table[(h*most+a-from)*most+b-from])
							}
							e := math.Exp(score - 60)
							sum += e
							for d := range dim {
								want[d] += e * x[b*3*width+2*width+h*dim+d]
							}
						}
						for d := range dim {
							g, w := got[a*width+h*dim+d], want[d]/sum
							if !(math.Abs(g-w) <= tolerance) {
								t.Fatalf("%d heads of %d, bias %v: text %d, head %d, token %d, value %d is %g, want %g",
									heads, dim, biased, i, h, a-from, d, g, w)
							}
						}
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

// TestAddRows: the encoder's operations in place equal the library's after each other.
func TestAddRows(t *testing.T) {
	skipOnDevice(t)
	random := rand.New(rand.NewPCG(3, 4))
	values := func(n int, scale float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(random.NormFloat64() * scale)
		}
		return x
	}
	const rows, n = 513, 48
	err := Run(func(s *Scope) error {
		given, residual := s.FromFloat32(values(rows*n, 3), rows, n), s.FromFloat32(values(rows*n, 1), rows, n)
		add := s.FromFloat32(values(3*n, 1), 3, n)
		row := func(i int64) Tensor { return s.View(s.Narrow(add, 0, i, 1), n) }
		check := func(what string, got, want Tensor) {
			g, w := s.Float64s(got), s.Float64s(want)
			for i := range w {
				if !(math.Abs(g[i]-w[i]) <= 2e-6*(1+math.Abs(w[i]))) {
					t.Fatalf("%s: value %d is %g, want %g", what, i, g[i], w[i])
				}
			}
		}
		y := s.Clone(given)
		s.AddGelu_(y, row(0))
		check("AddGelu_", y, s.gelu(s.Add(given, row(0))))
		y = s.Clone(given)
		s.AddLayerNorm_(y, residual, add, 1e-5)
		check("AddLayerNorm_", y, s.LayerNorm(s.Add(s.Add(given, row(0)), residual), row(1), row(2), 1e-5))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
