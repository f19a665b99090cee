package ctcl

import (
	"math"
	"slices"
	"testing"

	"popri/accountant"
	"popri/internal/rng"
	"popri/methods/target"
)

// TestShares: counts below 0 are 0, and a topic without noise has its clients' fraction. A topic whose count is 0 with
// noise −3 gets no text. The numbers of texts add up, each at most one away from its fraction.
func TestShares(t *testing.T) {
	if got := shares([]float64{6, -3, 2, 0}); !slices.Equal(got, []float64{.75, 0, .25, 0}) {
		t.Errorf("shares %v", got)
	}
	if got := target.Copies(shares([]float64{6, -3, 2, 0}), 40, 0.5); !slices.Equal(got, []int{30, 0, 10, 0}) {
		t.Errorf("copies %v", got)
	}
	if got := target.Copies(shares([]float64{-1, 0, -2}), 9, 0.5); !slices.Equal(got, []int{3, 3, 3}) {
		t.Errorf("without any count, copies %v", got)
	}
	random := rng.New(1, t.Name())
	for range 300 {
		counts := make([]float64, 1+random.IntN(50))
		for i := range counts {
			counts[i] = 10 * random.NormFloat64()
		}
		parts, n, sum := shares(counts), random.IntN(2000), 0
		for i, k := range target.Copies(parts, n, 0.5) {
			if sum += k; math.Abs(float64(k)-parts[i]*float64(n)) > 1+1e-9 || k < 0 || k > 0 && parts[i] == 0 {
				t.Fatalf("topic %d of %v is written %d of %d times", i, counts, k, n)
			}
		}
		if sum != n {
			t.Fatalf("%d texts, want %d", sum, n)
		}
	}
}

// TestHistogramCost: the paper's noise of σ = 10 on a histogram of 75 316 texts costs ε = 0.393 at δ = 1/(N ln N) if a
// client moves it by 1, as here, and 3.25 if it moves one count by 7, its number of texts.
func TestHistogramCost(t *testing.T) {
	const n = 75316
	for moves, want := range map[float64]float64{1: .393, 7: 3.25} {
		got, err := accountant.Exact{Relation: accountant.ZeroOut}.Epsilon(
			[]accountant.Event{{Sigma: 10 / moves, Count: 1, SamplingRate: 1}}, 1/(n*math.Log(n)))
		if err != nil || math.Abs(got-want) > .005*want {
			t.Errorf("a client that moves %g counts: ε = %g, want %g (%v)", moves, got, want, err)
		}
	}
}
