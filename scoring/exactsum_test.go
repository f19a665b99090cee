package scoring

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

func exact(t testing.TB, n int, limit float64) exactSum {
	t.Helper()
	b, err := newExactSum(n, limit)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The sum of numbers of any size and sign equals exact fractions', however it is divided, and is rounded once.
func TestExactSums(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []float64{1, 3, 1e-200, 1e200} {
		whole, parts := exact(t, 1, limit), []exactSum{exact(t, 1, limit), exact(t, 1, limit), exact(t, 1, limit)}
		step := math.Ldexp(1, whole.Exponent)
		want := new(big.Float).SetPrec(300)
		for range 2000 {
			x := limit * math.Ldexp(2*r.Float64()-1, -r.IntN(60))
			for _, b := range []exactSum{whole, parts[r.IntN(3)]} {
				if err := b.add(1, []float64{x}); err != nil {
					t.Fatal(err)
				}
			}
			want.Add(want, new(big.Float).SetFloat64(math.RoundToEven(x/step)*step))
		}
		merged := parts[0]
		for _, p := range parts[1:] {
			if err := merged.merge(p); err != nil {
				t.Fatal(err)
			}
		}
		nearest, _ := want.Float64()
		lost, _ := new(big.Float).Sub(want, new(big.Float).SetFloat64(nearest)).Float64()
		high, low := whole.split(0)
		if got := whole.float64s()[0]; got != nearest || high != nearest || low != lost ||
			!slices.Equal(merged.Values, whole.Values) {
			t.Errorf("limit %g: %g + %g, want %g + %g; merged %v and %v", limit, high, low, nearest, lost, merged,
				whole)
		}
	}
}

func TestRefusedNumbers(t *testing.T) {
	for _, limit := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-300, 1e300} {
		if _, err := newExactSum(1, limit); err == nil {
			t.Errorf("limit %g is accepted", limit)
		}
	}
	b := exact(t, 2, 1)
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 8, -8} {
		if err := b.add(1, []float64{0, x}); err == nil {
			t.Errorf("%g is added to values of at most 1", x)
		}
	}
	for _, x := range []int128{{High: math.MaxInt64, Low: math.MaxUint64}, {High: math.MinInt64}} {
		p := exactSum{0, []int128{x}}
		if err := p.merge(p); err == nil {
			t.Errorf("%v twice fits 128 bits", x)
		}
	}
}
