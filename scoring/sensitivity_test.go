package scoring

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"popri/fedsim/noise"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring/query"
)

// The adversary's choices of samples and of one client.
const (
	ordinary     = iota // random directions
	nearConstant        // columns of the samples repeat; the client's scores cancel to a deviation just above 1e-12
	atThreshold         // the client's scores cancel to where the Gram matrix is just trusted
	duplicates          // few different samples
	tiny
	huge
	oneSided // only the client's direction is large, all the samples being almost alike
	kinds
)

// adversarial makes samples and clients, the last of whom is the adversary's.
func adversarial(r *rand.Rand, kind, n, d, clients int, deviation float64) (embedding.Matrix, query.Means) {
	samples := unitMatrix(r, n, d)
	means := query.Means{Clients: clients, Dim: d, Data: normals(r, clients*d, 0.1)}
	last := means.Row(clients - 1)
	switch kind {
	case nearConstant, atThreshold:
		half := d / 2
		for i := range n {
			row := samples.Row(i)
			copy(row[half:], row[:half])
		}
		clear(last)
		for j := range half {
			x := r.NormFloat64()
			last[j], last[half+j] = x, -x
		}
		if half > 0 {
			if kind == atThreshold {
				deviation *= 3e9 // about 1e-5 of the trace
			}
			last[0] += deviation * (1 + 20*r.Float64())
		}
	case duplicates:
		for i := range n {
			copy(samples.Row(i), samples.Row(i%min(n, 2)))
		}
	case tiny:
		scale(samples.Data, 1e-15)
		for j := range last {
			last[j] *= 1e-15
		}
	case huge:
		scale(samples.Data, 1e15)
		for j := range last {
			last[j] *= 1e15
		}
	case oneSided:
		for i := range samples.Data {
			samples.Data[i] = float32(1 / math.Sqrt(float64(d)) * (1 + 1e-7*r.NormFloat64()))
		}
	}
	return samples, means
}

func scale(v []float32, by float32) {
	for i := range v {
		v[i] *= by
	}
}

// moved returns by how much the rounded sum moves when one client's texts are taken away.
func moved(t testing.TB, s *Samples, means query.Means, client int, grid noise.Grid) float64 {
	t.Helper()
	without := query.Means{Clients: means.Clients, Dim: means.Dim, Data: slices.Clone(means.Data)}
	clear(without.Row(client))
	a, err := s.Sum(means)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Sum(without)
	if err != nil {
		t.Fatal(err)
	}
	var squares float64
	for i := range a {
		x := grid.Value(grid.Round(a[i]) - grid.Round(b[i]))
		squares += x * x
	}
	return math.Sqrt(squares)
}

// Clients whose scores are almost constant move the rounded sum by no more than is charged for them, whether one of
// them is taken away or one of the others.
func TestNearlyConstantClientsMoveTheSumNoFurther(t *testing.T) {
	r := rng.New(11, t.Name())
	for trial := range 60 {
		n, d, clients := 50+r.IntN(300), 8+2*r.IntN(30), 2+r.IntN(40)
		samples, means := adversarial(r, nearConstant, n, d, clients, 1e-12)
		s := prepare(t, samples, Options{Standardized, 1})
		grid, err := noise.NewGrid(1, 1, n, clients)
		if err != nil {
			t.Fatal(err)
		}
		for _, client := range []int{clients - 1, 0} {
			if m := moved(t, s, means, client, grid); !(m <= grid.Sensitivity) {
				t.Errorf("trial %d, n %d, d %d: client %d of %d moves the sum by %.12g, charged are %.12g", trial, n, d,
					client, clients, m, grid.Sensitivity)
			}
		}
	}
}

// Whatever the embeddings, no client moves the rounded sum by more than the grid's sensitivity, its own vector is
// within the clip norm, and where scores are no rounding noise both paths agree.
func FuzzSensitivity(f *testing.F) {
	for kind := range kinds {
		f.Add(uint64(kind), byte(kind), uint16(120), byte(16), byte(9), 1e-12, false)
		f.Add(uint64(kind), byte(kind), uint16(33), byte(7), byte(3), 1e-9, true)
	}
	f.Fuzz(func(t *testing.T, seed uint64, kind byte, rows uint16, dim, people byte, deviation float64, paper bool) {
		n, d, clients := 1+int(rows)%400, 1+int(dim)%48, 1+int(people)%30
		if !(math.Abs(deviation) < 1) {
			deviation = 1e-12
		}
		r := rng.New(seed, "FuzzSensitivity")
		samples, means := adversarial(r, int(kind)%kinds, n, d, clients, deviation)
		o := Options{Standardized, 1}
		if paper {
			o = Options{None, 0.3}
		}
		s := prepare(t, samples, o)
		grid, err := noise.NewGrid(1, o.Clip, n, clients)
		if err != nil {
			t.Fatal(err)
		}
		for _, client := range []int{clients - 1, r.IntN(clients)} {
			if m := moved(t, s, means, client, grid); !(m <= grid.Sensitivity) {
				t.Errorf("kind %d, n %d, d %d, %+v: client %d of %d moves the sum by %.12g, charged are %.12g",
					int(kind)%kinds, n, d, o, client, clients, m, grid.Sensitivity)
			}
		}
		reference := make([]float64, n)
		for i := range clients {
			v, err := s.ContributionOfMean(means.Row(i))
			if err != nil {
				t.Fatal(err)
			}
			if norm := length(v); !(norm <= o.Clip*(1+1e-12)) {
				t.Errorf("client %d contributes norm %.15g", i, norm)
			}
			for k, x := range v {
				reference[k] += x
			}
		}
		fast, err := s.Sum(means)
		if err != nil {
			t.Fatal(err)
		}
		if k := int(kind) % kinds; k == ordinary || k == nearConstant || k == atThreshold {
			if diff := difference(fast, reference); diff > 1e-6 {
				t.Errorf("kind %d, n %d, d %d, %+v, %d clients: paths differ by %g", k, n, d, o, clients, diff)
			}
		}
	})
}

func TestClientsThatAreNoNumbersAreRefused(t *testing.T) {
	r := rng.New(12, t.Name())
	s := prepare(t, unitMatrix(r, 20, 4), Options{Standardized, 1})
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		means := query.Means{Clients: 3, Dim: 4, Data: normals(r, 12, 0.1)}
		means.Row(1)[2], means.Row(1)[3] = bad, bad
		if sum, err := s.Sum(means); err == nil || !strings.Contains(err.Error(), "client 1") {
			t.Errorf("a client with %g: sum %v, error %v", bad, sum, err)
		}
		if v, err := s.ContributionOfMean(means.Row(1)); err == nil {
			t.Errorf("a client with %g contributes %v", bad, v)
		}
	}
}
