package accountant_test

import (
	"math"
	"testing"

	"popri/accountant"
)

// TestAugPENoise: the noise multipliers of Aug-PE's ten rounds for ε 1, 2 and 4 at δ = 1/(N ln N), of the N train
// records that its paper counts (Xie et al. 2024). They are within 0.5 % of the exact ones.
func TestAugPENoise(t *testing.T) {
	for _, c := range []struct {
		name    string
		records float64
		sigma   [3]float64
	}{
		{"Yelp", 1939290, [3]float64{15.34, 8.03, 4.24}},
		{"OpenReview", 8396, [3]float64{11.60, 6.22, 3.38}},
		{"PubMed", 75316, [3]float64{13.26, 7.01, 3.75}},
	} {
		delta := 1 / (c.records * math.Log(c.records))
		for i, epsilon := range []float64{1, 2, 4} {
			plan := accountant.Plan{Each: accountant.Event{SamplingRate: 1, Count: 10}}
			sigma, err := plan.Sigma(accountant.Exact{}, epsilon, delta)
			if err != nil || math.Abs(sigma/c.sigma[i]-1) > 0.005 {
				t.Errorf("%s at ε = %g: the noise multiplier is %.4f, published %.2f (%v)", c.name, epsilon, sigma,
					c.sigma[i], err)
			}
		}
	}
}

// TestPreTextNoise: the claims of PrE-Text's eleven rounds by RDP, and what remains of them with the noise that its
// published code draws, 1.541·√2 times the accounted one (specification of Private Evolution).
func TestPreTextNoise(t *testing.T) {
	for _, c := range []struct{ sigma, claimed, drawn float64 }{{11.3, 1.29, .557}, {2.31, 7.58, 3.122}} {
		for _, noise := range []struct{ factor, want, tolerance float64 }{
			{1, c.claimed, 5e-3}, {1.541 * math.Sqrt2, c.drawn, 5e-4}} {
			rounds := []accountant.Event{{Sigma: noise.factor * c.sigma, Count: 11}}
			got, err := accountant.RDP{}.Epsilon(rounds, 3e-6)
			if err != nil || math.Abs(got-noise.want) > noise.tolerance {
				t.Errorf("σ = %g times %.3f: ε = %.4f, want %g (%v)", c.sigma, noise.factor, got, noise.want, err)
			}
		}
	}
}
