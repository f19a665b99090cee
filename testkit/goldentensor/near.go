package goldentensor

import (
	"math"
	"testing"

	"popri/model/safetensors"
)

// NearFiles fails the test unless each tensor of the safetensors file want is in got, with entries that differ by at
// most tolerance.
func NearFiles(t testing.TB, got, want string, tolerance float64) {
	t.Helper()
	g, err := safetensors.Open(got)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	w, err := safetensors.Open(want)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, name := range w.Names() {
		a, _ := g.Tensor(name)
		b, _ := w.Tensor(name)
		x, err1 := a.Float32s()
		y, err2 := b.Float32s()
		if err1 != nil || err2 != nil || len(x) != len(y) {
			t.Fatalf("%s: %v, %v, %d and %d values", name, err1, err2, len(x), len(y))
		}
		for i := range x {
			if d := math.Abs(float64(x[i] - y[i])); !(d <= tolerance) {
				t.Errorf("%s: entry %d is %g, want %g", name, i, x[i], y[i])
				break
			}
		}
	}
}
