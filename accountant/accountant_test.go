package accountant

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"popri/internal/rng"
)

// series computes δ(ε) with 400 bits: Φ by the everywhere convergent series Φ(x) = 1/2 + φ(x)·Σ x^(2k+1)/(2k+1)!!.
func series(mu, epsilon float64) float64 {
	const bits = 400
	newFloat := func(x float64) *big.Float { return new(big.Float).SetPrec(bits).SetFloat64(x) }
	exp := func(x *big.Float) *big.Float { // by halving the argument and squaring the series
		halves := 0
		y := newFloat(0).Set(x)
		for y.Cmp(newFloat(0.01)) > 0 || y.Cmp(newFloat(-0.01)) < 0 {
			y.Quo(y, newFloat(2))
			halves++
		}
		sum, term := newFloat(1), newFloat(1)
		for k := 1; k < 80; k++ {
			term.Mul(term, y)
			term.Quo(term, newFloat(float64(k)))
			sum.Add(sum, term)
		}
		for range halves {
			sum.Mul(sum, sum)
		}
		return sum
	}
	pi, _,
		_ := big.ParseFloat("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651328230664709384460955058223172535940812848111745",
		10, bits, big.ToNearestEven)
	root := new(big.Float).SetPrec(bits).Sqrt(newFloat(0).Mul(pi, newFloat(2)))
	phi := func(x *big.Float) *big.Float {
		square := newFloat(0).Mul(x, x)
		sum, term := newFloat(0).Set(x), newFloat(0).Set(x)
		for k := 1; k < 3000; k++ {
			term.Mul(term, square)
			term.Quo(term, newFloat(float64(2*k+1)))
			sum.Add(sum, term)
		}
		density := exp(newFloat(0).Quo(newFloat(0).Neg(square), newFloat(2)))
		density.Quo(density, root)
		return sum.Add(newFloat(0.5), sum.Mul(sum, density))
	}
	m, e := newFloat(mu), newFloat(epsilon)
	ratio := newFloat(0).Quo(e, m)
	half := newFloat(0).Quo(m, newFloat(2))
	first := phi(newFloat(0).Sub(half, ratio))
	second := phi(newFloat(0).Sub(newFloat(0).Neg(half), ratio))
	second.Mul(second, exp(e))
	d, _ := first.Sub(first, second).Float64()
	return d
}

func TestDeltaAgainstManyDigits(t *testing.T) {
	for _, mu := range []float64{1e-4, 0.01, 0.3, 0.49, 0.51, 1, 3, 9} {
		for _, x := range []float64{0, 0.1, 0.5, 0.99, 1.01, 3, 8, 12} {
			epsilon := x * mu * max(1, mu) // so that a = ε/μ − μ/2 passes through all branches
			if epsilon/mu+mu/2 > 12 {
				continue // the series would need more digits than it has
			}
			got, want := math.Exp(gaussianLogDelta(mu, epsilon)), series(mu, epsilon)
			if math.Abs(got/want-1) > 2e-12 {
				t.Errorf("mu %g, epsilon %g: delta %.17g, want %.17g", mu, epsilon, got, want)
			}
		}
	}
}

func TestDeltaIsSmoothInTheExtremes(t *testing.T) {
	for _, mu := range []float64{1e-12, 1e-8, 1e-3, 1, 30, 1e3, 1e6} {
		previous := math.Inf(1)
		for x := 1e-6; x < 1e6; x *= 1.3 {
			d := gaussianLogDelta(mu, x*mu)
			if math.IsNaN(d) || d > 1e-15 || d > previous+1e-9*math.Abs(previous) {
				t.Fatalf("mu %g, epsilon %g: ln delta %g after %g", mu, x*mu, d, previous)
			}
			previous = d
		}
	}
}

func TestMillsBranchesMeet(t *testing.T) {
	below, above := mills(fractionFrom-1e-9), mills(fractionFrom)
	if math.Abs(below/above-1) > 1e-9 {
		t.Errorf("mills jumps from %.16g to %.16g", below, above)
	}
	below, above = millsSlope(fractionFrom-1e-9), millsSlope(fractionFrom)
	if math.Abs(below/above-1) > 1e-8 {
		t.Errorf("its slope jumps from %.16g to %.16g", below, above)
	}
	if want := 0.5 * math.Erfc(5/math.Sqrt2) / math.Exp(logDensity(5)); math.Abs(mills(5)/want-1) > 1e-14 {
		t.Errorf("mills(5) = %.17g, want %.17g", mills(5), want)
	}
}

func TestEpsilonAndSigmaInvertDelta(t *testing.T) {
	r := rng.New(1, t.Name())
	for range 80 {
		sigma := math.Exp(3 * r.NormFloat64())
		rounds := 1 + r.IntN(100)
		delta := math.Pow(10, -1-11*r.Float64())
		events := []Event{{Sigma: sigma, Count: rounds}}
		epsilon, err := Exact{}.Epsilon(events, delta)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Exact{}.Delta(events, epsilon)
		if err != nil || back > delta*(1+1e-12) || epsilon > 0 && math.Abs(back/delta-1) > 1e-9 {
			t.Errorf("sigma %g, %d rounds: epsilon %g at delta %g, back to %g (%v)", sigma, rounds, epsilon, delta,
				back, err)
		}
		for _, a := range []Accountant{Exact{}, RDP{}} {
			target := math.Exp(2 * r.NormFloat64())
			found, err := sigmaOf(a, target, delta, rounds, 1)
			if err != nil {
				t.Fatal(err)
			}
			within, _ := a.Epsilon([]Event{{Sigma: found, Count: rounds}}, delta)
			beyond, _ := a.Epsilon([]Event{{Sigma: found * (1 - 1e-6), Count: rounds}}, delta)
			if within > target || beyond <= target {
				t.Errorf("%s: sigma %g for epsilon %g spends %g, a little less noise %g", a.Name(), found, target,
					within, beyond)
			}
			n, err := roundsOf(a, found, 1, target, delta, 1000)
			if err != nil || n != rounds {
				t.Errorf("%s: %d rounds fit (%v), want %d", a.Name(), n, err, rounds)
			}
		}
	}
}

// RDP is a bound: never below the exact value, and not far above it.
func TestRDPIsAboveExact(t *testing.T) {
	r := rng.New(1, t.Name())
	for range 300 {
		events := []Event{{Sigma: math.Exp(1 + 2*r.NormFloat64()), Count: 1 + r.IntN(50)},
			{Sigma: 5, SamplingRate: 1, Count: r.IntN(3)}}
		delta := math.Pow(10, -2-8*r.Float64())
		exact, err := Exact{}.Epsilon(events, delta)
		if err != nil {
			t.Fatal(err)
		}
		bound, err := RDP{}.Epsilon(events, delta)
		if err != nil || bound < exact || bound > 1.4*exact+0.2 {
			t.Errorf("%+v, delta %g: rdp %g, exact %g (%v)", events, delta, bound, exact, err)
		}
		at := exact / 2
		least, _ := Exact{}.Delta(events, at)
		most, err := RDP{}.Delta(events, at)
		if err != nil || most < least*(1-1e-12) || most > 1 {
			t.Errorf("%+v, epsilon %g: rdp delta %g, exact %g (%v)", events, at, most, least, err)
		}
	}
}

// At whole orders the sum and the integral are two ways to one number; sampling everybody is no sampling; less
// sampling and more noise cost less.
func TestSampledDivergence(t *testing.T) {
	for _, q := range []float64{1e-6, 1e-3, 0.1, 0.5, 0.99} {
		for _, sigma := range []float64{0.06, 0.4, 1, 5, 100} {
			for _, a := range []float64{2, 3, 10, 50} {
				sum, integral := binomialExcess(q, sigma, a), integralExcess(q, sigma, a)
				if math.Abs(sum-integral) > 1e-9*max(1, math.Abs(sum)) {
					t.Errorf("q %g, sigma %g, order %g: sum %.15g, integral %.15g", q, sigma, a, sum, integral)
				}
			}
			previous := 0.0
			for _, a := range []float64{1.1, 1.5, 2, 2.5, 3.3, 7, 20.5, 64} {
				r := sampledDivergence(q, sigma, a)
				if r < previous || r > a/(2*sigma*sigma) || r < sampledDivergence(q/2, sigma, a) ||
					r < sampledDivergence(q, sigma*2, a) {
					t.Errorf("q %g, sigma %g, order %g: divergence %g out of order", q, sigma, a, r)
				}
				previous = r
			}
		}
	}
	if r := sampledDivergence(1-1e-12, 2, 5); math.Abs(r-5.0/8) > 1e-9 {
		t.Errorf("nearly everybody: %g, want %g", r, 5.0/8)
	}
	if a, b := sampledDivergence(0.1, 0.04, 2.5), sampledDivergence(0.1, 0.04, 3); !(a > 0 && a <= b) ||
		math.IsInf(a, 1) {
		t.Errorf("little noise: %g at order 2.5, %g at order 3", a, b)
	}
	if r := sampledDivergence(0.1, 0, 2); !math.IsInf(r, 1) {
		t.Errorf("no noise: %g", r)
	}
	if r := sampledDivergence(0.1, math.Inf(1), 2); r != 0 {
		t.Errorf("infinite noise: %g", r)
	}
}

func TestCompositionAddsInverseSquares(t *testing.T) {
	split, _ := Exact{}.Epsilon([]Event{{Sigma: 2, Count: 3}, {Sigma: 4, Count: 4}}, 1e-5)
	joined, _ := Exact{}.Epsilon([]Event{{Sigma: 2, Count: 4}}, 1e-5)
	if math.Abs(split-joined) > 1e-12 {
		t.Errorf("3 of sigma 2 and 4 of sigma 4 spend %g, 4 of sigma 2 spend %g", split, joined)
	}
}

// TestEdges is what every accountant must do, whatever it knows.
func TestEdges(t *testing.T) {
	for _, a := range []Accountant{Exact{}, RDP{}, PLD{}, clt{}, Exact{Relation: Replace}, RDP{Relation: Replace},
		PLD{Relation: Replace}} {
		for _, c := range []struct {
			events []Event
			want   float64
		}{
			{nil, 0},
			{[]Event{{Sigma: 1, Count: 0}}, 0},
			{[]Event{{Sigma: 0, Count: 0}}, 0},
			{[]Event{{Sigma: 0, Count: 1}}, math.Inf(1)},
			{[]Event{{Sigma: math.Inf(1), Count: 5}}, 0},
			{[]Event{{Sigma: 1e9, Count: 1}}, 0},
		} {
			if got, err := a.Epsilon(c.events, 1e-5); err != nil || got != c.want {
				t.Errorf("%s: %+v spend %g (%v), want %g", a.Name(), c.events, got, err, c.want)
			}
		}
		for _, f := range []func() error{
			func() error { _, err := a.Epsilon(nil, 0); return err },
			func() error { _, err := a.Epsilon(nil, 1); return err },
			func() error { _, err := a.Epsilon(nil, math.NaN()); return err },
			func() error { _, err := a.Epsilon([]Event{{Sigma: -1, Count: 1}}, 0.1); return err },
			func() error { _, err := a.Epsilon([]Event{{Sigma: math.NaN(), Count: 1}}, 0.1); return err },
			func() error { _, err := a.Epsilon([]Event{{Sigma: 1, SamplingRate: 2, Count: 1}}, 0.1); return err },
			func() error { _, err := a.Epsilon([]Event{{Sigma: 1, Count: -1}}, 0.1); return err },
			func() error { _, err := a.Delta(nil, -1); return err },
			func() error { _, err := a.Delta(nil, math.NaN()); return err },
			func() error { _, err := sigmaOf(a, -1, 0.1, 1, 1); return err },
			func() error { _, err := sigmaOf(a, 1, 0, 1, 1); return err },
			func() error { _, err := sigmaOf(a, 1, 0.1, -1, 1); return err },
			func() error { _, err := roundsOf(a, -1, 1, 1, 0.1, 5); return err },
		} {
			if f() == nil {
				t.Errorf("%s: bad input gave no error", a.Name())
			}
		}
		if s, err := sigmaOf(a, math.Inf(1), 1e-5, 3, 1); s != 0 || err != nil {
			t.Errorf("%s: infinite epsilon needs sigma %g (%v)", a.Name(), s, err)
		}
		if s, err := sigmaOf(a, 1, 1e-5, 0, 1); s != 0 || err != nil {
			t.Errorf("%s: no rounds need sigma %g (%v)", a.Name(), s, err)
		}
	}
	if _, err := (Exact{}).Epsilon([]Event{{Sigma: 1, SamplingRate: 0.5, Count: 1}}, 1e-5); !errors.Is(err,
		ErrNotApplicable) {
		t.Errorf("exact with sampling: %v", err)
	}
}

// What three rounds among a thousand clients need.
func ExamplePlan_Sigma() {
	for _, epsilon := range []float64{7, 1} {
		sigma, _ := Plan{Each: Event{Count: 3}}.Sigma(Exact{}, epsilon, 1e-4)
		fmt.Printf("epsilon %g: sigma %.3f\n", epsilon, sigma)
	}
	// Output:
	// epsilon 7: sigma 1.047
	// epsilon 1: sigma 5.518
}

// Taking one client's texts away moves sums as taking the client away does, so every accountant gives the same bounds,
// with Poisson samples and for groups too; cohorts of a fixed size have a bound under replacement alone.
func TestZeroOutCostsWhatAddOrRemoveCosts(t *testing.T) {
	events := map[string][]Event{
		"everybody":         {{Sigma: 2, Count: 5}},
		"Poisson":           {{Sigma: 1.1, SamplingRate: 0.05, Count: 20}},
		"Poisson, a couple": {{Sigma: 1.5, SamplingRate: 0.1, Group: 2, Count: 10}},
		"a group":           {{Sigma: 9, Group: 3, Count: 4}},
	}
	for name, list := range events {
		zeroed, removed := All(ZeroOut), All(AddOrRemove)
		for i, a := range zeroed {
			got, err := a.Epsilon(list, 1e-5)
			want, otherErr := removed[i].Epsilon(list, 1e-5)
			if got != want || errors.Is(err, ErrNotApplicable) != errors.Is(otherErr, ErrNotApplicable) {
				t.Errorf("%s, %s: epsilon %g (%v), under add_or_remove %g (%v)", name, a.Name(), got, err, want,
					otherErr)
			}
		}
	}
	for _, a := range All(ZeroOut) {
		if _, err := a.Epsilon([]Event{{Sigma: 2, Population: 100, Cohort: 10, Count: 1}}, 1e-5); !errors.Is(err,
			ErrNotApplicable) {
			t.Errorf("%s takes a cohort of fixed size under %q: %v", a.Name(), ZeroOut, err)
		}
	}
}

func TestRelationWords(t *testing.T) {
	for r, want := range map[Relation][]string{
		ZeroOut:     {"taken away", "number of clients is public", "at most the norm bound"},
		AddOrRemove: {"lacks one client", "number of clients is secret", "at most the norm bound"},
		Replace:     {"whole data of one client", "number of clients is public", "twice the norm bound"},
	} {
		for _, w := range want {
			if !strings.Contains(r.GroupWords(1), w) {
				t.Errorf("%s: %q lacks %q", r, r.GroupWords(1), w)
			}
		}
		if three := r.GroupWords(3); !strings.Contains(three, "up to 3 clients") ||
			strings.Contains(three, "one client") ||
			!strings.Contains(three, map[Relation]string{ZeroOut: "3 times", AddOrRemove: "3 times",
				Replace: "6 times"}[r]+" the norm bound") {
			t.Errorf("%s, of three clients: %q", r, three)
		}
		if err := r.Validate(); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
	if err := Relation("sideways").Validate(); err == nil || !strings.Contains(err.Error(), `"zero_out"`) {
		t.Errorf("an unknown relation: %v", err)
	}
}

// sigmaOf is [Plan.Sigma] for rounds releases with Gaussian noise at a sampling rate.
func sigmaOf(a Accountant, epsilon, delta float64, rounds int, samplingRate float64) (float64, error) {
	return Plan{Each: Event{SamplingRate: samplingRate, Count: rounds}}.Sigma(a, epsilon, delta)
}

// roundsOf is [Plan.Rounds] for releases with Gaussian noise at a sampling rate.
func roundsOf(a Accountant, sigma, samplingRate, epsilon, delta float64, limit int) (int, error) {
	return Plan{Each: Event{Sigma: sigma, SamplingRate: samplingRate}}.Rounds(a, epsilon, delta, limit)
}
