package tensor

import (
	"math"
	"math/rand/v2"
	"testing"

	"popri/model/tensor/tensortest"
)

func TestTruncation(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var c truncation
	for trial := range 400 {
		row := make([]float32, 1+random.IntN(300))
		spread := math.Exp(4 * random.NormFloat64())
		for i := range row {
			row[i] = float32(spread * random.NormFloat64())
			if trial%5 == 0 {
				row[i] = float32(random.IntN(4)) // many ties
			}
			if trial%7 == 0 && i > 0 && random.IntN(3) == 0 {
				row[i] = float32(math.Inf(-1))
			}
		}
		k, p, temperature := random.IntN(len(row)+3), random.Float64(), math.Exp(random.NormFloat64())
		if trial%3 == 0 {
			k = 0
		}
		if trial%3 == 1 {
			p = 1
		}
		want := tensortest.SortedCut(row, k, p, temperature)
		got := append([]float32{}, row...)
		c.apply(got, k, p, temperature)
		for i := range row {
			kept := got[i] == row[i]
			if kept != (want[i] || math.IsInf(float64(row[i]), -1)) {
				t.Fatalf("trial %d, k %d, p %g: id %d (%g) kept %v, want %v", trial, k, p, i, row[i], kept, want[i])
			}
		}
	}
}

func BenchmarkTruncation(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	row := make([]float32, 50257)
	for i := range row {
		row[i] = float32(3 * random.NormFloat64())
	}
	work := make([]float32, len(row))
	var c truncation
	for b.Loop() {
		copy(work, row)
		c.apply(work, 50, 0.95, 1)
	}
}
