package metrics

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/safetensors"
	"popri/testkit/golden"
	"popri/testkit/testfile"
)

func readPoints(t *testing.T, file string, names ...string) (points [][]float32, dim int) {
	t.Helper()
	f, err := safetensors.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range names {
		tensor, ok := f.Tensor(name)
		if !ok || len(tensor.Shape) != 2 {
			t.Fatalf("%s: no matrix %q", file, name)
		}
		values, err := tensor.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		points, dim = append(points, values), int(tensor.Shape[1])
	}
	return points, dim
}

func TestGoldenFrechet(t *testing.T) {
	dir := filepath.Join(golden.Root(t), "fid")
	var cases []struct {
		Name      string
		Expected  float64
		Tolerance float64 `json:"tolerance_abs"`
	}
	testfile.ReadJSON(t, filepath.Join(dir, "frechet.json"), &cases)
	for _, c := range cases {
		points, dim := readPoints(t, filepath.Join(dir, c.Name+".safetensors"), "x", "y")
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			got, err := frechet(points[order[0]], points[order[1]], dim)
			if err != nil {
				t.Errorf("%s: %v", c.Name, err)
			} else if math.Abs(got-c.Expected) > c.Tolerance || got < 0 {
				t.Errorf("%s: %v, want %v within %v", c.Name, got, c.Expected, c.Tolerance)
			}
		}
	}
	golden.Checked(t, "fid/frechet", len(cases))
}

func TestGoldenPrecisionRecall(t *testing.T) {
	dir := filepath.Join(golden.Root(t), "fid")
	var cases []struct {
		Name    string
		Results []struct {
			K                 int
			Precision, Recall float64
		}
	}
	testfile.ReadJSON(t, filepath.Join(dir, "precision_recall.json"), &cases)
	n := 0
	for _, c := range cases {
		points, dim := readPoints(t, filepath.Join(dir, "pr-"+c.Name+".safetensors"), "real", "generated")
		for _, r := range c.Results {
			precision, recall, err := PrecisionRecall(points[0], points[1], dim, r.K)
			if err != nil {
				t.Errorf("%s, k = %d: %v", c.Name, r.K, err)
			} else if math.Abs(precision-r.Precision) > 1e-12 || math.Abs(recall-r.Recall) > 1e-12 {
				t.Errorf("%s, k = %d: %v and %v, want %v and %v", c.Name, r.K, precision, recall, r.Precision, r.Recall)
			}
			n++
		}
	}
	golden.Checked(t, "fid/precision_recall", n)
}

func cloud(random *rand.Rand, n, dim int, shift float64) []float32 {
	points := make([]float32, n*dim)
	for i := range points {
		points[i] = float32(random.NormFloat64() + shift)
	}
	return points
}

// In one dimension the distance is (μx − μy)² + (σx − σy)²; and it does not change when both clouds move together.
func TestFrechetInvariants(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	x, y := cloud(random, 500, 1, 0), cloud(random, 400, 1, 2)
	moments := func(points []float32) (mean, sd float64) {
		for _, v := range points {
			mean += float64(v) / float64(len(points))
		}
		for _, v := range points {
			sd += (float64(v) - mean) * (float64(v) - mean) / float64(len(points)-1)
		}
		return mean, math.Sqrt(sd)
	}
	mx, sx := moments(x)
	my, sy := moments(y)
	want := (mx-my)*(mx-my) + (sx-sy)*(sx-sy)
	if got, err := frechet(x, y, 1); err != nil || math.Abs(got-want) > 1e-12 {
		t.Errorf("one dimension: %v %v, want %v", got, err, want)
	}
	for _, n := range []int{4, 6, 30} {
		a, b := cloud(random, n, 5, 0), cloud(random, n+1, 5, 1)
		before, err := frechet(a, b, 5)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a {
			a[i] += 4
		}
		for i := range b {
			b[i] += 4
		}
		after, err := frechet(a, b, 5)
		if err != nil || math.Abs(after-before) > 1e-4*before {
			t.Errorf("%d points: %v, moved %v %v", n, before, after, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		x, y []float32
		dim  int
		want string
	}{
		{[]float32{1, 2}, []float32{1, 2, 3, 4}, 2, "1 points"},
		{nil, []float32{1, 2}, 1, "0 points"},
		{[]float32{1, 2, 3}, []float32{1, 2}, 2, "3 values"},
		{[]float32{1}, []float32{1}, 0, "0 dimensions"},
		{[]float32{1, 2, 3, nan}, []float32{1, 2, 3, 4}, 2, "value 1 of point 1 is NaN"},
		{[]float32{1, 2, 3, 4}, []float32{1, 2, inf, 4}, 2, "value 0 of point 1 is -Inf"},
	} {
		if _, err := frechet(c.x, c.y, c.dim); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: %v, want %q", c.x, c.y, err, c.want)
		}
		if _, _, err := PrecisionRecall(c.x, c.y, c.dim, 1); err == nil {
			t.Errorf("%v %v: accepted", c.x, c.y)
		}
	}
	for _, k := range []int{-1, 0, 2} {
		if _, _, err := PrecisionRecall([]float32{1, 2}, []float32{1, 2}, 1, k); err == nil {
			t.Errorf("k = %d: accepted", k)
		}
	}
	a, _ := NewGaussian([]float32{1, 2}, 1)
	b, _ := NewGaussian([]float32{1, 2, 3, 4}, 2)
	if _, err := a.Distance(b); err == nil {
		t.Error("different dimensions: accepted")
	}
}

// A set is within itself, and swapping the sets swaps the two figures.
func TestPrecisionRecallInvariants(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	x, y := cloud(random, 60, 7, 0), cloud(random, 45, 7, 0.7)
	p, r, err := PrecisionRecall(x, slices.Clone(x), 7, 2)
	if err != nil || p != 1 || r != 1 {
		t.Errorf("itself: %v %v %v", p, r, err)
	}
	p, r, err = PrecisionRecall(x, y, 7, 3)
	r2, p2, err2 := PrecisionRecall(y, x, 7, 3)
	if err != nil || err2 != nil || p != p2 || r != r2 {
		t.Errorf("%v %v %v, swapped %v %v %v", p, r, err, p2, r2, err2)
	}
}

func BenchmarkFrechet(b *testing.B) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, size := range [][2]int{{2000, 256}, {2000, 384}} {
		x, y := cloud(random, size[0], size[1], 0), cloud(random, size[0], size[1], 1)
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			for b.Loop() {
				frechet(x, y, size[1])
			}
		})
	}
}

func BenchmarkPrecisionRecall(b *testing.B) {
	random := rand.New(rand.NewPCG(5, 6))
	x, y := cloud(random, 2000, 256, 0), cloud(random, 2000, 256, 1)
	for b.Loop() {
		PrecisionRecall(x, y, 256, 3)
	}
}

func ExampleGaussian_Distance() {
	x := []float32{0, 0, 2, 0, 0, 2, 2, 2} // the corners of a square
	y := []float32{3, 0, 5, 0, 3, 2, 5, 2} // the same, 3 to the right
	gx, _ := NewGaussian(x, 2)
	gy, _ := NewGaussian(y, 2)
	distance, _ := gx.Distance(gy)
	fmt.Printf("%.3f\n", distance)
	// Output: 9.000
}

// frechet returns the Fréchet distance between two sets of points, as Heusel et al. (arXiv 1706.08500) apply it, with
// covariances over n−1. Each set needs at least two points.
func frechet(x, y []float32, dim int) (float64, error) {
	gx, err := NewGaussian(x, dim)
	if err != nil {
		return 0, err
	}
	gy, err := NewGaussian(y, dim)
	if err != nil {
		return 0, err
	}
	return gx.Distance(gy)
}
