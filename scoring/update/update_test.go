package update

import (
	"math"
	"testing"

	"popri/internal/rng"
)

// A clipped vector is never above the bound, in float64, and keeps its direction; a shorter one stays as it is.
func TestClip(t *testing.T) {
	r := rng.New(1, t.Name())
	for range 300 {
		v := make([]float64, 1+r.IntN(5000))
		scale := math.Exp(6 * r.NormFloat64())
		for i := range v {
			v[i] = scale * r.NormFloat64()
		}
		bound := math.Exp(6 * r.NormFloat64())
		was := append([]float64(nil), v...)
		norm := Clip(v, bound)
		k := min(1, bound/norm)
		if got := Norm(v); got > bound || math.Abs(got-min(norm, bound)) > 1e-9*got {
			t.Fatalf("norm %g of bound %g, was %g", got, bound, norm)
		}
		for i := range v {
			if d := v[i] - k*was[i]; math.Abs(d) > 1e-9*math.Abs(v[i]) || norm <= bound && v[i] != was[i] {
				t.Fatalf("value %d is %g, was %g, factor %g", i, v[i], was[i], k)
			}
		}
	}
}

// What diverged is no vector at all.
func FuzzClip(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 0.5)
	f.Add(math.Inf(1), 2.0, 3.0, 0.5)
	f.Add(math.NaN(), 0.0, 0.0, 1.0)
	f.Add(1e300, 1e300, 0.0, 1.0)
	f.Add(5e-324, 1e-320, 0.0, 1e-5)
	f.Fuzz(func(t *testing.T, a, b, c, bound float64) {
		if !(bound > 1e-150 && bound < 1e150) {
			return
		}
		v := []float64{a, b, c}
		Clip(v, bound)
		if n := Norm(v); !(n <= bound) {
			t.Errorf("%v with bound %g: norm %g", v, bound, n)
		}
	})
}

// Everything that decides the updates is in the name, the key or the bound.
func TestKey(t *testing.T) {
	q := Question{Training: Training{Rate: .1, Epochs: 1, Batch: 2, Clip: 1}, Model: Model{Folder: "m"},
		Weights: make([]float32, 3000), Round: 1, Seed: 1}
	seen := map[string]bool{q.Name() + q.Key(): true}
	for i, change := range []func(*Question){func(q *Question) { q.Rate = .2 }, func(q *Question) { q.Epochs = 2 },
		func(q *Question) { q.Batch = 3 }, func(q *Question) { q.Model.Folder = "n" },
		func(q *Question) { q.Model.Rank = 1 }, func(q *Question) { q.Model.Adapter = 1 },
		func(q *Question) { q.Model.Rows = "line" }, func(q *Question) { q.Model.Length = 9 }, func(q *Question) { q.Round = 2 },
		func(q *Question) { q.Seed = 2 }, func(q *Question) { q.Weights = make([]float32, 2999) },
		func(q *Question) { q.Weights = append(make([]float32, 2999), 1e-30) }} {
		other := q
		change(&other)
		if name := other.Name() + other.Key(); seen[name] {
			t.Errorf("change %d keeps name and key", i)
		} else {
			seen[name] = true
		}
	}
}
