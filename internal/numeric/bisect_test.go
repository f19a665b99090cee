package numeric_test

import (
	"math"
	"testing"

	"popri/internal/numeric"
)

// The ends become neighbours, on both sides of the border.
func TestBetween(t *testing.T) {
	low, high := numeric.Bisect(0, 3, func(x float64) bool { return x*x < 2 })
	if low*low >= 2 || high*high < 2 || math.Nextafter(low, 3) != high {
		t.Errorf("√2 lies between %v and %v", low, high)
	}
}
