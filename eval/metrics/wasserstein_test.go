package metrics

import (
	"math"
	"slices"
	"testing"

	"popri/internal/rng"
)

// TestMatch against all matchings of few rows.
func TestMatch(t *testing.T) {
	random := rng.New(1, "match")
	for trial := range 200 {
		n := 1 + trial%6
		costs := make([]float64, n*n)
		for i := range costs {
			costs[i] = random.NormFloat64()
			if trial%3 == 0 {
				costs[i] = float64(random.IntN(4)) // ties
			}
		}
		want := math.Inf(1)
		var try func(left []int, sum float64)
		try = func(left []int, sum float64) {
			if len(left) == 0 {
				want = min(want, sum)
			}
			for k, j := range left {
				try(slices.Concat(left[:k], left[k+1:]), sum+costs[(n-len(left))*n+j])
			}
		}
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		try(all, 0)
		if got := match(costs, n); math.Abs(got-want) > 1e-12 {
			t.Fatalf("%d rows: %g, want %g", n, got, want)
		}
	}
}

// TestWasserstein: in one dimension it is the mean difference of the points in their order; a shift moves all points by
// as much; and of more points, as many of each as are matched.
func TestWasserstein(t *testing.T) {
	random := rng.New(2, "wasserstein")
	cloud := func(n, dim int, shift float32) *Gaussian {
		points := make([]float32, n*dim)
		for i := range points {
			points[i] = float32(random.NormFloat64()) + shift
		}
		g, err := NewGaussian(points, dim)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	a, b := cloud(300, 1, 0), cloud(300, 1, 2)
	x, y, want := slices.Sorted(slices.Values(a.points)), slices.Sorted(slices.Values(b.points)), 0.0
	for i := range x {
		want += math.Abs(float64(x[i]-y[i])) / 300
	}
	if got, err := a.Wasserstein(b); err != nil || math.Abs(got-want) > 1e-6 {
		t.Errorf("in one dimension %g, want %g (%v)", got, want, err)
	}
	c := cloud(2*mostMatched, 3, 0)
	moved := slices.Clone(c.points)
	for i := range moved {
		moved[i] += 5
	}
	d, err := NewGaussian(moved, 3)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Wasserstein(d); err != nil || math.Abs(got-5*math.Sqrt(3)) > 1e-5 {
		t.Errorf("of shifted points %g, want %g (%v)", got, 5*math.Sqrt(3), err)
	}
	if got, err := c.Wasserstein(c); err != nil || got != 0 {
		t.Errorf("of a cloud to itself %g (%v)", got, err)
	}
	back, err := b.Wasserstein(a)
	if there, _ := a.Wasserstein(b); err != nil || math.Abs(back-there) > 1e-9 {
		t.Errorf("%g there and %g back (%v)", there, back, err)
	}
	if got, err := cloud(40, 3, 1).Wasserstein(c); err != nil || !(got > 0) {
		t.Errorf("of 40 points %g (%v)", got, err)
	}
	if _, err := a.Wasserstein(c); err == nil {
		t.Error("points of one and of three dimensions have a distance")
	}
}
