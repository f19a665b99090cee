package genetic

import (
	"math"
	"slices"
	"testing"

	"popri/internal/rng"
	"popri/model/embedding"
)

// TestEstimate: one coordinate, parents 2, 1, 0 in their order, α = 0.1, R = 2: μ' = 1.2 and σ' = 0.78485.
func TestEstimate(t *testing.T) {
	mean, sd, err := estimate(embedding.Matrix{Rows: 3, Dim: 1, Data: []float32{2, 1, 0}}, .1, 2)
	if err != nil || math.Abs(mean[0]-1.2) > 1e-12 || math.Abs(sd[0]-.78485) > 5e-6 {
		t.Errorf("mean %v, standard deviation %v (%v)", mean, sd, err)
	}
	// One parent is the first, the second and the last: its own place, without spread.
	mean, sd, err = estimate(embedding.Matrix{Rows: 1, Dim: 2, Data: []float32{.6, -.8}}, .1, 5)
	if err != nil || math.Abs(mean[0]-.6) > 1e-7 || math.Abs(mean[1]+.8) > 1e-7 || sd[0] != 0 || sd[1] != 0 {
		t.Errorf("of one parent: %v, %v (%v)", mean, sd, err)
	}
	if _, _, err := estimate(embedding.Matrix{Dim: 1}, .1, 2); err == nil {
		t.Error("no parents")
	}
}

// TestNext: the draws have the mean and the spread of the estimate before they are scaled to unit length, and repeat
// themselves.
func TestNext(t *testing.T) {
	const dim, n = 40, 4000
	random := rng.New(1, "parents")
	parents := embedding.NewMatrix(6, dim)
	for i := range parents.Data {
		parents.Data[i] = float32(random.NormFloat64()) / 6
	}
	mean, sd, err := estimate(parents, smoothing, top)
	if err != nil {
		t.Fatal(err)
	}
	got, err := next(parents, n, rng.New(2, "next"))
	if err != nil || got.Rows != n || got.Dim != dim {
		t.Fatal(err, got.Rows)
	}
	again, _ := next(parents, n, rng.New(2, "next"))
	if !slices.Equal(got.Data, again.Data) {
		t.Error("the same stream gives another population")
	}
	raw := rng.New(2, "next")
	for i := range n {
		squares, v := 0.0, make([]float64, dim)
		for j := range v {
			v[j] = mean[j] + sd[j]*raw.NormFloat64()
			squares += v[j] * v[j]
		}
		for j := range v {
			if math.Abs(float64(got.Row(i)[j])-v[j]/math.Sqrt(squares)) > 1e-6 {
				t.Fatalf("individual %d has %g at %d, want %g", i, got.Row(i)[j], j, v[j]/math.Sqrt(squares))
			}
		}
	}
}

// TestBest: the highest counts above the threshold, the best first, up to the given number.
func TestBest(t *testing.T) {
	counts := []float64{3, 9, -2, 7, 9, 4}
	for want, c := range map[int][]int{0: best(counts, 10, 3), 2: best(counts, 7.5, 3), 3: best(counts, 0, 3),
		5: best(counts, 0, 9)} {
		if len(c) != want || want > 1 && (c[0] != 1 || c[1] != 4) || want > 2 && c[2] != 3 {
			t.Errorf("%v, want %d of %v", c, want, counts)
		}
	}
}
