package tensor

import (
	"math"
	"testing"
)

// hidden is what drop.h decides, one element after the other.
func hidden(key uint64, row, column int, rate float64) bool {
	z := key + uint64(row+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	x := uint32(column) + uint32(z)
	x = (x^x>>16)*0x7feb352d + uint32(z>>32)
	x = (x ^ x>>15) * 0x846ca68b
	return float64(x^x>>16) < math.Round(rate*(1<<32))
}

// TestDrop: the kernel, for widths that fill the lanes and not, and the library's operations hide what the definition
// says.
func TestDrop(t *testing.T) {
	const key = 1<<63 + 9
	for _, width := range []int64{1, 15, 64, 75} {
		for _, d := range []DType{Float32, BFloat16} {
			for _, rate := range []float64{0.1, 0.5, 0.999} {
				results := both(t, func(s *Scope) []float64 {
					return s.Float64s(s.Drop(s.Full(d, 2, 2, 3, 5, width), Dropout{rate, key}))
				})
				for _, got := range results {
					for i, x := range got {
						row, column := i/int(width), i%int(width)
						want := 2 / (1 - rate)
						if hidden(key, row, column, rate) {
							want = 0
						}
						if math.Abs(x-want) > 0.004*want {
							t.Fatalf("width %d, %v, rate %g: element %d is %g, want %g", width, d, rate, i, x, want)
						}
					}
				}
			}
		}
	}
}

// TestDropRate: the rates of values, of neighbours in a row and in a column, and of two keys are as in independent
// draws.
func TestDropRate(t *testing.T) {
	const rows, width = 400, 500
	for _, rate := range []float64{0.1, 0.5} {
		var draws [2][]float64
		err := Run(func(s *Scope) error {
			for i := range draws {
				draws[i] = s.Float64s(s.Drop(s.Full(Float32, 1, rows, width), Dropout{rate, uint64(i)}))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, n int, want float64, both func(i int) bool) {
			t.Helper()
			hits := 0
			for i := range n {
				if both(i) {
					hits++
				}
			}
			// Five standard deviations.
			if got := float64(hits) / float64(n); math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/float64(n)) {
				t.Errorf("rate %g: %s %g, want %g", rate, what, got, want)
			}
		}
		x, y := draws[0], draws[1]
		near("hidden", len(x), rate, func(i int) bool { return x[i] == 0 })
		near("hidden with the next", len(x)-1, rate*rate, func(i int) bool { return x[i] == 0 && x[i+1] == 0 })
		near("hidden with the one below", len(x)-width, rate*rate,
			func(i int) bool { return x[i] == 0 && x[i+width] == 0 })
		near("hidden by both keys", len(x), rate*rate, func(i int) bool { return x[i] == 0 && y[i] == 0 })
	}
}
