package metrics

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A cloud that is long in one direction, wide in a second and thin in the others has these two as its plane.
func TestPlane(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	const n, dim = 4000, 5
	scale := [dim]float64{0.1, 3, 0.1, 1, 0.1}
	points := make([]float32, n*dim)
	for i := range points {
		points[i] = float32(7 + scale[i%dim]*random.NormFloat64())
	}
	g, err := NewGaussian(points, dim)
	if err != nil {
		t.Fatal(err)
	}
	p, err := g.Plane()
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(p.SD[0]-3) > 0.15 || math.Abs(p.SD[1]-1) > 0.05 {
		t.Errorf("the standard deviations are %v", p.SD)
	}
	flat, err := p.Project([]float32{7, 17, 7, 7, 7, 7, 7, 7, 17, 7})
	if err != nil {
		t.Fatal(err)
	}
	if first, second := math.Abs(flat[0][0]), math.Abs(flat[1][1]); math.Abs(first-10) > 0.3 ||
		math.Abs(second-10) > 0.3 {
		t.Errorf("steps of 10 along the axes are %v", flat)
	}
	if _, err := p.Project(make([]float32, dim+1)); err == nil {
		t.Error("points of another dimension are accepted")
	}
	one, err := NewGaussian([]float32{1, 2, 3, 4}, 2) // two points have one component
	if err != nil {
		t.Fatal(err)
	}
	if p, err = one.Plane(); err != nil {
		t.Fatal(err)
	}
	if flat, err = p.Project([]float32{3, 4}); err != nil || math.Abs(math.Abs(flat[0][0])-math.Sqrt2) > 1e-6 ||
		math.Abs(flat[0][1]) > 1e-6 {
		t.Errorf("a line: %v, %v", flat, err)
	}
}

func TestMedoidSpread(t *testing.T) {
	for _, c := range []struct {
		points [][2]float64
		want   float64
	}{
		{[][2]float64{{1, 1}}, 0},
		{[][2]float64{{0, 0}, {1, 0}, {-1, 0}, {0, 2}, {9, 9}}, 1},
		{[][2]float64{{0, 0}, {0, 0}, {3, 4}, {6, 8}}, 2.5}, // the medoid is (0, 0): distances 0, 0, 5 and 10
	} {
		if got, err := MedoidSpread(c.points); err != nil || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v (%v), want %v", c.points, got, err, c.want)
		}
	}
	if _, err := MedoidSpread(nil); err == nil {
		t.Error("no points have a medoid")
	}
}
