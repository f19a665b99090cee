package accountant

import (
	"math"
	"strconv"
	"testing"
)

func TestRoundUpAndDown(t *testing.T) {
	for _, c := range []struct {
		v        float64
		digits   int
		up, down string
	}{
		{0, 4, "0", "0"}, {7, 4, "7", "7"}, {6.9999999, 4, "7", "6.999"}, {7.00024, 4, "7.001", "7"},
		{0.91941, 4, "0.9195", "0.9194"},
		{1234.1, 4, "1235", "1234"}, {9.9999, 3, "10", "9.99"}, {7.0002449, 6, "7.00025", "7.00024"},
		{2.5, 3, "2.5", "2.5"},
		{math.Inf(1), 4, "+Inf", "+Inf"}, {-1.23456, 4, "-1.234", "-1.235"}, {1.00001e-7, 3, "1.01e-07", "1e-07"},
		{1234567, 4, "1.235e+06", "1.234e+06"},
	} {
		if up, down := RoundUp(c.v, c.digits), RoundDown(c.v, c.digits); up != c.up || down != c.down {
			t.Errorf("%g with %d digits: %s and %s, want %s and %s", c.v, c.digits, up, down, c.up, c.down)
		}
	}
}

func FuzzRoundUp(f *testing.F) {
	f.Add(7.00024, 4)
	f.Add(math.MaxFloat64, 3)
	f.Add(math.SmallestNonzeroFloat64, 15)
	f.Fuzz(func(t *testing.T, v float64, digits int) {
		if digits < 1 || digits > 15 || math.IsNaN(v) {
			return
		}
		up, errUp := strconv.ParseFloat(RoundUp(v, digits), 64)
		down, errDown := strconv.ParseFloat(RoundDown(v, digits), 64)
		if errUp != nil && !math.IsInf(up, 0) || errDown != nil && !math.IsInf(down, 0) || up < v || down > v {
			t.Errorf("%g with %d digits: up %g (%v), down %g (%v)", v, digits, up, errUp, down, errDown)
		}
		width := math.Abs(v) * math.Pow(10, float64(1-digits)) * 1.0001
		if !math.IsInf(up, 0) && up-v > width+5e-324 || !math.IsInf(down, 0) && v-down > width+5e-324 {
			t.Errorf("%g with %d digits is moved to %g and %g", v, digits, up, down)
		}
	})
}
