package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestAttendTexts: attention within texts is the softmax of scores times values, with a bias or without.
func TestAttendTexts(t *testing.T) {
	if !CanPack(BFloat16) {
		t.Skip("this CPU has no products of bfloat16")
	}
	random := rand.New(rand.NewPCG(1, 2))
	starts := []int32{0, 1, 1, 14, 46, 79, 200}
	for _, shape := range [][2]int{{3, 32}, {2, 64}} {
		heads, dim := shape[0], shape[1]
		n, width, most := int(starts[len(starts)-1]), heads*dim, 130
		values := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(random.NormFloat64())
			}
			return x
		}
		given := values(n * 3 * width)
		table := values(heads * most * most)
		for _, biased := range []bool{false, true} {
			err := Run(func(s *Scope) error {
				qkv := s.To(s.FromFloat32(given, int64(n), int64(3*width)), BFloat16)
				x := s.Float64s(qkv)
				var bias Tensor
				if biased {
					bias = s.FromFloat32(table, int64(heads), int64(most), int64(most))
				}
				got := s.Float64s(s.AttendTexts(qkv, starts, heads, bias))
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
								if !(math.Abs(g-w) <= 0.02) {
									t.Fatalf("%d heads of %d, bias %v: text %d, head %d, token %d, value %d is %g, "+
										"want %g",
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
}
