package scoring_test

import (
	"math"
	"testing"

	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// TestCompactIsTheProjection: with the noise that the projection would leave of a full release, a compact release gives
// the scores of the projected one, for every way of normalising and clipping.
func TestCompactIsTheProjection(t *testing.T) {
	random := rng.New(5, "compact")
	unit := func(n, d int) embedding.Matrix {
		m := embedding.NewMatrix(n, d)
		for i := range m.Data {
			m.Data[i] = float32(random.NormFloat64())
		}
		return scoring.Unit(m)
	}
	const n, d, clients = 300, 12, 40
	samples := unit(n, d)
	var offsets []int
	for i := range clients + 1 {
		offsets = append(offsets, 3*i)
	}
	means, err := query.MeanEmbeddings(unit(3*clients, d), offsets)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []scoring.Options{{Normalize: scoring.None, Clip: 1}, {Normalize: scoring.None, Clip: 1e6},
		{Normalize: scoring.Standardized, Clip: 1}, {Normalize: scoring.Standardized, Clip: 1e6}} {
		full, err := scoring.NewCosine(samples, o, "k")
		if err != nil {
			t.Fatal(err)
		}
		compact, err := scoring.NewCompact(samples, o, "k")
		if err != nil {
			t.Fatal(err)
		}
		held := query.Clients{Means: means}
		sum, err := full.Sum(held)
		if err != nil {
			t.Fatal(err)
		}
		short, err := compact.Sum(held)
		if err != nil || len(short) != full.Rank() {
			t.Fatalf("%d values (%v)", len(short), err)
		}
		noise := make([]float64, n)
		for i := range noise {
			noise[i] = random.NormFloat64()
			sum[i] += noise[i]
		}
		// Column k of V·R⁺ is what the k-th compact value alone gives.
		for k := range short {
			one := make([]float64, len(short))
			one[k] = 1
			column, err := full.Expand(one)
			if err != nil {
				t.Fatal(err)
			}
			square := 0.0
			for i, q := range column {
				short[k] += q * noise[i]
				square += q * q
			}
			if math.Abs(square-1) > 1e-9 {
				t.Errorf("%+v: column %d has squared length %g", o, k, square)
			}
		}
		want, err := full.Project(sum)
		if err != nil {
			t.Fatal(err)
		}
		got, err := full.Expand(short)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-9*(1+math.Abs(want[i])) {
				t.Fatalf("%+v: score %d is %g, the projected one %g", o, i, got[i], want[i])
			}
		}
		for i := range clients {
			a, errA := full.Vector(held, i)
			b, errB := compact.Vector(held, i)
			if errA != nil || errB != nil || math.Abs(norm(a)-norm(b)) > 1e-9*norm(a) {
				t.Errorf("%+v: client %d sends vectors of norm %g and %g (%v, %v)", o, i, norm(a), norm(b), errA, errB)
			}
		}
	}
}

func norm(v []float64) float64 {
	square := 0.0
	for _, x := range v {
		square += x * x
	}
	return math.Sqrt(square)
}
