package target

import (
	"math"
	"testing"

	"popri/internal/rng"
	"popri/model/embedding"
)

// TestKeep: rows are drawn so that their mean comes to the clients', and no nearer than the floor on the effective
// number of texts allows.
func TestKeep(t *testing.T) {
	random := rng.New(1, "keep")
	p := &Pool{Vectors: embedding.NewMatrix(1, 4), Centre: make([]float64, 4)}
	target := &Target{Pool: p, Mean: []float64{0.3, 0, 0, 0}, Noise: 1e-3}
	vectors := embedding.NewMatrix(400, 4)
	for i := range vectors.Data {
		vectors.Data[i] = float32(0.4 * random.NormFloat64())
	}
	for _, floor := range []float64{100, 350} {
		copies, w, err := target.copies(vectors, 1000, floor, 7)
		if err != nil {
			t.Fatal(err)
		}
		rows, mean := 0, 0.0
		for i, n := range copies {
			rows += n
			mean += float64(n) * float64(vectors.Row(i)[0]) / 1000
		}
		if near := math.Abs(mean-0.3) < 0.02; rows != 1000 || w.Effective < 0.999*floor || near != (floor == 100) {
			t.Errorf("floor %g: %d rows of mean %g, effective size %g", floor, rows, mean, w.Effective)
		}
	}
}
