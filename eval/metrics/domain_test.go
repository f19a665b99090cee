package metrics

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestAUC(t *testing.T) {
	for _, c := range []struct {
		high, low []float64
		want      float64
	}{
		{[]float64{3, 4}, []float64{1, 2}, 1},
		{[]float64{1, 2}, []float64{3, 4}, 0},
		{[]float64{1, 1}, []float64{1, 1}, 0.5},
		{[]float64{2, 0}, []float64{1, 2}, 0.375},
	} {
		if got := AUC(c.high, c.low); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("AUC(%v, %v) is %v, want %v", c.high, c.low, got, c.want)
		}
	}
}

// domainCloud draws n points around a shift of the first coordinate, alternating between the halves.
func domainCloud(random *rand.Rand, n, dim int, shift float64) Halves {
	h := Halves{Points: make([]float32, n*dim), Second: make([]bool, n)}
	for i := range h.Points {
		h.Points[i] = float32(random.NormFloat64())
		if i%dim == 0 {
			h.Points[i] += float32(shift)
		}
	}
	for i := range h.Second {
		h.Second[i] = i%2 == 1
	}
	return h
}

// Two normal clouds whose means are s standard deviations apart have the AUC Φ(s/√2), and the discriminant finds the
// direction.
func TestDomainAUC(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, shift := range []float64{0, 1, 3} {
		a, b := domainCloud(random, 3000, 8, shift), domainCloud(random, 2000, 8, 0)
		got, err := DomainAUC(a, b, 8)
		if err != nil {
			t.Fatal(err)
		}
		if want := (1 + math.Erf(shift/2)) / 2; math.Abs(got-want) > 0.03 {
			t.Errorf("shift %v: AUC %.3f, want %.3f", shift, got, want)
		}
		swapped, err := DomainAUC(b, a, 8)
		if err != nil || math.Abs(swapped-got) > 1e-12 {
			t.Errorf("shift %v: AUC %.6f, with the sets swapped %.6f (%v)", shift, got, swapped, err)
		}
	}
	same := Halves{Points: []float32{1, 0, 1, 0, 1, 0, 1, 0}, Second: []bool{false, true, false, true}}
	other := Halves{Points: []float32{0, 1, 0, 1, 0, 1, 0, 1}, Second: []bool{false, true, false, true}}
	if got, err := DomainAUC(same, other, 2); err != nil || got != 1 {
		t.Errorf("points that are all alike: %v, %v", got, err)
	}
	for name, bad := range map[string]Halves{
		"a half is missing": {Points: same.Points, Second: make([]bool, 4)},
		"too few halves":    {Points: same.Points, Second: make([]bool, 3)},
		"not finite":        {Points: []float32{float32(math.NaN()), 0, 1, 0, 1, 0, 1, 0}, Second: same.Second},
	} {
		if _, err := DomainAUC(bad, other, 2); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
