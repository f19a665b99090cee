package scoring

import (
	"math"
	"testing"

	"popri/internal/rng"
	"popri/model/embedding"
)

// cloud is n random unit vectors of d values.
func cloud(seed uint64, n, d int) embedding.Matrix {
	random := rng.New(seed, "match")
	m := embedding.NewMatrix(n, d)
	for i := range n {
		square := 0.0
		for j := range m.Row(i) {
			v := random.NormFloat64()
			m.Row(i)[j] = float32(v)
			square += v * v
		}
		for j := range m.Row(i) {
			m.Row(i)[j] /= float32(math.Sqrt(square))
		}
	}
	return m
}

// TestMatch: the mean is at the radius, the weights are an exponential family of the texts, and of all weights with
// this mean they have the largest entropy.
func TestMatch(t *testing.T) {
	m := cloud(1, 400, 6)
	target := weightedSum(m.Data, m.Dim, uniform(400))
	target[0] += 0.3
	target[3] -= 0.2
	for _, radius := range []float64{1e-3, 0.05, 0.2} {
		w, err := Match(m, nil, target, radius, 0)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, b := range w.Weights {
			if !(b > 0) {
				t.Fatalf("weight %d is %g", i, b)
			}
			sum += b
		}
		if math.Abs(sum-1) > 1e-12 || math.Abs(w.Distance-radius) > matchSlack*radius {
			t.Errorf("radius %g: weights add up to %g, the mean is %g away", radius, sum, w.Distance)
		}
		if residual := logLinear(t, m, w.Weights); residual > 1e-6 {
			t.Errorf("radius %g: ln weight is off a linear function of the text by %g", radius, residual)
		}
	}
	prior := make([]float64, 400)
	for i := range 200 {
		prior[i] = float64(1 + i%3)
	}
	w, err := Match(m, prior, target, 0.05, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.Weights[200:] {
		if w.Weights[200+i] != 0 {
			t.Fatalf("text %d has prior 0 and weight %g", 200+i, w.Weights[200+i])
		}
	}
	tilt := make([]float64, 200)
	for i := range tilt {
		tilt[i] = w.Weights[i] / prior[i]
	}
	if residual := logLinear(t, m.Slice(0, 200), tilt); residual > 1e-6 {
		t.Errorf("with a prior: ln (weight/prior) is off a linear function of the text by %g", residual)
	}
	near, err := Match(m, nil, weightedSum(m.Data, m.Dim, uniform(400)), 0.01, 0)
	if err != nil || near.Effective < 399.9 {
		t.Errorf("texts that have the mean already get an effective size of %g (%v)", near.Effective, err)
	}
}

// logLinear returns the largest residual of ln w as an affine function of the rows, fitted by gradient-free
// elimination.
func logLinear(t *testing.T, m embedding.Matrix, w []float64) float64 {
	t.Helper()
	k := m.Dim + 1
	a := make([][]float64, k)
	for i := range a {
		a[i] = make([]float64, k+1)
	}
	row := func(i int) []float64 {
		x := make([]float64, k)
		x[0] = 1
		for j, v := range m.Row(i) {
			x[j+1] = float64(v)
		}
		return x
	}
	for i := range m.Rows {
		x := row(i)
		for p := range k {
			for q := range k {
				a[p][q] += x[p] * x[q]
			}
			a[p][k] += x[p] * math.Log(w[i])
		}
	}
	for p := range k {
		for q := range k {
			if q != p {
				f := a[q][p] / a[p][p]
				for c := range a[q] {
					a[q][c] -= f * a[p][c]
				}
			}
		}
	}
	worst := 0.0
	for i := range m.Rows {
		fit := 0.0
		for p, v := range row(i) {
			fit += v * a[p][k] / a[p][p]
		}
		worst = max(worst, math.Abs(fit-math.Log(w[i])))
	}
	return worst
}

func uniform(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = 1 / float64(n)
	}
	return w
}

// TestMatchFloor: a radius that would leave too few effective texts grows.
func TestMatchFloor(t *testing.T) {
	m := cloud(2, 300, 5)
	target := weightedSum(m.Data, m.Dim, uniform(300))
	target[1] += 0.5
	free, err := Match(m, nil, target, 0.02, 0)
	if err != nil {
		t.Fatal(err)
	}
	floored, err := Match(m, nil, target, 0.02, 200)
	if err != nil {
		t.Fatal(err)
	}
	if free.Effective >= 200 || floored.Effective < 200 || floored.Radius <= free.Radius {
		t.Errorf("effective sizes %g and %g, radii %g and %g", free.Effective, floored.Effective, free.Radius,
			floored.Radius)
	}
}

// TestMatchOutOfReach: texts go as near to a mean outside of all of them as the floor allows.
func TestMatchOutOfReach(t *testing.T) {
	m := cloud(3, 50, 4)
	target := []float64{3, 0, 0, 0}
	unmatched, err := Weigh(m, nil, target)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Match(m, nil, target, 0.1, 10)
	if err != nil || w.Effective < 10 || w.Effective > 25 || !(w.Distance < unmatched.Distance-0.3) {
		t.Errorf("%g effective texts at a distance of %g, unmatched %g (%v)", w.Effective, w.Distance,
			unmatched.Distance, err)
	}
}

func TestMatchRefuses(t *testing.T) {
	m := cloud(3, 50, 4)
	for _, bad := range []func() error{
		func() error { _, err := Match(m, nil, []float64{0}, 0.1, 0); return err },
		func() error { _, err := Match(m, nil, []float64{0, 0, 0, math.NaN()}, 0.1, 0); return err },
		func() error { _, err := Match(m, nil, make([]float64, 4), 0, 0); return err },
		func() error { _, err := Match(m, nil, make([]float64, 4), 0.1, 51); return err },
		func() error { _, err := Match(m, make([]float64, 50), make([]float64, 4), 0.1, 0); return err },
		func() error { _, err := Match(m, make([]float64, 3), make([]float64, 4), 0.1, 0); return err },
		func() error { _, err := Match(embedding.Matrix{}, nil, nil, 0.1, 0); return err },
	} {
		if bad() == nil {
			t.Error("an impossible question gives no error")
		}
	}
}
