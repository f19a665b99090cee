package tensor

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// TestFused compares with the definitions, in float64, for widths that fill the lanes and not.
func TestFused(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	for _, n := range []int64{2, 16, 30, 64, 98} {
		for _, d := range []DType{Float32, BFloat16} {
			tolerance := map[DType]float64{Float32: 2e-6, BFloat16: 8e-3}[d]
			both(t, func(s *Scope) error {
				const rows = 5
				draw := func(n int64) Tensor {
					v := make([]float32, n)
					for i := range v {
						v[i] = float32(3 * random.NormFloat64())
					}
					return s.FromFloat32(v, n)
				}
				check := func(what string, i int, got, want float64) {
					t.Helper()
					if math.Abs(got-want) > tolerance*(1+math.Abs(want)) {
						t.Fatalf("%s of %v, width %d: value %d is %g, want %g", what, d, n, i, got, want)
					}
				}
				x := s.View(s.To(draw(rows*2*n), d), rows, 2*n)
				w := draw(2 * n)
				xs, ws := s.Float64s(x), s.Float64s(w)
				for i, got := range s.Float64s(s.RMSNorm(x, w, 1e-5)) {
					sum := 0.0
					for _, v := range xs[i/int(2*n)*int(2*n):][:2*n] {
						sum += v * v
					}
					check("RMSNorm", i, got, xs[i]/math.Sqrt(sum/float64(2*n)+1e-5)*ws[i%int(2*n)])
				}
				b := draw(2 * n)
				bs := s.Float64s(b)
				for i, got := range s.Float64s(s.FusedLayerNorm(x, w, b, 1e-5)) {
					row := xs[i/int(2*n)*int(2*n):][:2*n]
					mean, variance := stat.PopMeanVariance(row, nil)
					check("FusedLayerNorm", i, got, (xs[i]-mean)/math.Sqrt(variance+1e-5)*ws[i%int(2*n)]+bs[i%int(2*n)])
				}
				for i, got := range s.Float64s(s.SwiGLU(x)) {
					at := i/int(n)*int(2*n) + i%int(n)
					check("SwiGLU", i, got, xs[at]/(1+math.Exp(-xs[at]))*xs[at+int(n)])
				}
				for i, got := range s.Float64s(s.geluTanh(x)) {
					check("GeluTanh", i, got, 0.5*xs[i]*(1+math.Tanh(math.Sqrt(2/math.Pi)*(xs[i]+0.044715*xs[i]*xs[i]*xs[i]))))
				}
				if d != Float32 || n%2 != 0 {
					return nil
				}
				cosines, sines := s.View(draw(rows*n), rows, n), s.View(draw(rows*n), rows, n)
				cs, ss := s.Float64s(cosines), s.Float64s(sines)
				s.Rotate_(x, cosines, sines, 1, n) // the second head stays
				for i, got := range s.Float64s(x) {
					row, at := i/int(2*n), i%int(2*n)
					want := xs[i]
					if at < int(n) {
						want = xs[i]*cs[row*int(n)+at] + xs[row*int(2*n)+(at+int(n)/2)%int(n)]*ss[row*int(n)+at]
					}
					check("Rotate_", i, got, want)
				}
				return nil
			})
		}
	}
}

// TestAddInPlace: a sum of float32 takes values of both types to the last bit as the library adds them.
func TestAddInPlace(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	a, b := normals(random, 3*37, 1), normals(random, 3*37, 1)
	for _, d := range []DType{Float32, BFloat16} {
		sums := both(t, func(s *Scope) []float32 {
			sum, part := s.FromFloat32(a, 3, 37), s.To(s.FromFloat32(b, 3, 37), d)
			s.Add_(sum, part)
			whole := slices.Clone(sum.Host())
			s.Add_(sum, s.Transpose(s.View(part, 37, 3), 0, 1)) // not contiguous
			return append(whole, sum.Host()...)
		})
		if !slices.Equal(sums[0], sums[1]) {
			t.Errorf("%v: the kernel and the library differ", d)
		}
		if sums[0][0] == a[0] || sums[0][3*37] == sums[0][0] {
			t.Errorf("%v: nothing was added", d)
		}
	}
}
