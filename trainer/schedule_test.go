package trainer

import (
	"math"
	"testing"
)

// TestSchedules: the rates equal transformers' schedules of the same names.
func TestSchedules(t *testing.T) {
	for kind, want := range map[string][]float64{
		"constant":             {1, 1, 1, 1, 1, 1, 1},
		"constant_with_warmup": {0, 0.5, 1, 1, 1, 1, 1},
		"linear":               {0, 0.5, 1, 0.75, 0.5, 0.25, 0},
		"cosine":               {0, 0.5, 1, (1 + math.Sqrt2/2) / 2, 0.5, (1 - math.Sqrt2/2) / 2, 0},
	} {
		s := Schedule{Kind: kind, Peak: 1, Warmup: 2, Total: 6}
		for step, rate := range want {
			if got := s.At(step); math.Abs(got-rate) > 1e-12 {
				t.Errorf("%s: step %d has the rate %g, want %g", kind, step, got, rate)
			}
		}
	}
}
