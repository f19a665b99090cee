package accountant

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"popri/internal/rng"
)

func bounds(t *testing.T, p PLD, events []Event, delta float64) (lower, upper float64) {
	t.Helper()
	lower, upper, err := p.EpsilonBounds(events, delta)
	if err != nil {
		t.Fatalf("%+v: %v", events, err)
	}
	if !(lower <= upper) {
		t.Errorf("%+v, delta %g: epsilon between %g and %g", events, delta, lower, upper)
	}
	return lower, upper
}

func deltaBounds(t *testing.T, p PLD, events []Event, epsilon float64) (lower, upper float64) {
	t.Helper()
	lower, upper, err := p.DeltaBounds(events, epsilon)
	if err != nil {
		t.Fatalf("%+v: %v", events, err)
	}
	return lower, upper
}

// One sampled release has a closed form: δ of the mixture is q·δ of the release on everybody, at ln(1 + (e^ε − 1)/q).
func TestOneSampledReleaseIsExact(t *testing.T) {
	r := rng.New(1, t.Name())
	for range 20 {
		q, sigma := math.Pow(10, -3*r.Float64()), math.Exp(1.2*r.NormFloat64())
		events := []Event{{Sigma: sigma, SamplingRate: q, Count: 1}}
		epsilon := math.Exp(r.NormFloat64() - 1)
		want := q * math.Exp(gaussianLogDelta(1/sigma, math.Log1p(math.Expm1(epsilon)/q)))
		if want < 1e-12 {
			continue
		}
		lower, upper := deltaBounds(t, PLD{direction: "remove"}, events, epsilon)
		if !(lower <= want*(1+1e-9) && upper >= want*(1-1e-9) && upper <= want*1.01) {
			t.Errorf("q %g, sigma %g, epsilon %g: delta between %g and %g, want %g", q, sigma, epsilon, lower, upper,
				want)
		}
		low, high := bounds(t, PLD{direction: "remove"}, events, want)
		if low > epsilon*(1+1e-9) || high < epsilon*(1-1e-9) || high > epsilon*(1+1e-4)+1e-5 {
			t.Errorf("q %g, sigma %g: epsilon between %g and %g, want %g", q, sigma, low, high, epsilon)
		}
	}
}

// hockeyStick is ∫(p − e^ε q)₊ over all pairs of outcomes, by the midpoint rule.
func hockeyStick(p, q func(x float64) float64, epsilon float64) float64 {
	const h, reach = 0.02, 14.0
	var ps, qs []float64
	for x := -reach; x <= reach; x += h {
		ps, qs = append(ps, p(x)*h), append(qs, q(x)*h)
	}
	factor := math.Exp(epsilon)
	var sum float64
	for i := range ps {
		for j := range ps {
			sum += max(0, ps[i]*ps[j]-factor*qs[i]*qs[j])
		}
	}
	return sum
}

// Two releases, by going through all pairs of outcomes: both directions of add/remove, and replacement, where libraries
// take σ relative to different sensitivities. Here it is relative to the norm of one client's vector, so that replacing
// by the opposite vector moves the mean by two of them.
func TestTwoReleasesAgainstAllOutcomes(t *testing.T) {
	density := func(mean, sigma float64) func(float64) float64 {
		return func(x float64) float64 {
			z := (x - mean) / sigma
			return math.Exp(-z*z/2) / (sigma * math.Sqrt(2*math.Pi))
		}
	}
	mix := func(q float64, a, b func(float64) float64) func(float64) float64 {
		return func(x float64) float64 { return (1-q)*a(x) + q*b(x) }
	}
	for _, c := range []struct{ q, sigma, epsilon float64 }{{0.1, 1, 0.5}, {0.4, 1.3, 0.9}, {1, 2, 0.7},
		{0.02, 0.8, 0.2}} {
		none, plus, minus := density(0, c.sigma), density(1, c.sigma), density(-1, c.sigma)
		for name, x := range map[string]struct {
			p    PLD
			a, b func(float64) float64
		}{
			"remove":  {PLD{direction: "remove"}, mix(c.q, none, plus), none},
			"add":     {PLD{direction: "add"}, none, mix(c.q, none, plus)},
			"replace": {PLD{Relation: Replace}, mix(c.q, none, plus), mix(c.q, none, minus)},
		} {
			want := hockeyStick(x.a, x.b, c.epsilon)
			lower, upper := deltaBounds(t, x.p, []Event{{Sigma: c.sigma, SamplingRate: c.q, Count: 2}}, c.epsilon)
			if !(lower <= want*(1+1e-4) && upper >= want*(1-1e-4) && upper < want*1.001+1e-12) {
				t.Errorf("%s, %+v: delta between %g and %g, all outcomes give %g", name, c, lower, upper, want)
			}
		}
	}
}

// A cohort of fixed size, by going through all cohorts of a small population in which one member's value is replaced:
// the truth is below what is claimed, by both analyses, and not far below for values that are all alike but one.
func TestFixedCohortAgainstAllCohorts(t *testing.T) {
	// The bound without differences, for little noise, meets the other one.
	for _, order := range []float64{2, 3, 10, 64} {
		below, above := fixedDivergence(0.01, math.Nextafter(leastExactSigma, 0))(order), fixedDivergence(0.01, leastExactSigma)(order)
		if math.Abs(below-above) > 1e-9*above {
			t.Errorf("order %g: %g and %g", order, below, above)
		}
	}
	const population, cohort, sigma = 5, 2, 2.0
	density := func(members []float64) func(x float64) float64 {
		var sums []float64
		for i := range members {
			for j := range i {
				sums = append(sums, members[i]+members[j])
			}
		}
		return func(x float64) float64 {
			var d float64
			for _, s := range sums {
				z := (x - s) / sigma
				d += math.Exp(-z*z/2) / (sigma * math.Sqrt(2*math.Pi) * float64(len(sums)))
			}
			return d
		}
	}
	events := []Event{{Sigma: sigma, Population: population, Cohort: cohort, Count: 2}}
	for _, epsilon := range []float64{0.1, 0.4, 1} {
		lower, upper := deltaBounds(t, PLD{Relation: Replace}, events, epsilon)
		rdp, err := RDP{Relation: Replace}.Delta(events, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		if upper > rdp {
			t.Errorf("epsilon %g: pld shows %g, rdp %g", epsilon, upper, rdp)
		}
		worst := 0.0
		for _, rest := range [][]float64{{0, 0, 0, 0}, {1, 1, 1, 1}, {-1, -1, -1, -1}, {1, -1, 1, -1}} {
			a, b := density(append([]float64{1}, rest...)), density(append([]float64{-1}, rest...))
			worst = max(worst, hockeyStick(a, b, epsilon), hockeyStick(b, a, epsilon))
		}
		if worst > upper || worst < lower/4 {
			t.Errorf("epsilon %g: the worst of some populations has delta %g, claimed is %g (at least %g)", epsilon,
				worst, upper, lower)
		}
	}
	// A person who is two of the five: both values are replaced.
	events[0].Group = 2
	for _, epsilon := range []float64{0.1, 1, 2} {
		_, upper := deltaBounds(t, PLD{Relation: Replace}, events, epsilon)
		for _, rest := range [][]float64{{0, 0, 0}, {1, 1, 1}, {1, -1, 1}} {
			a, b := density(append([]float64{1, 1}, rest...)), density(append([]float64{-1, -1}, rest...))
			if truth := max(hockeyStick(a, b, epsilon), hockeyStick(b, a, epsilon)); truth > upper {
				t.Errorf("epsilon %g, a group of two: delta %g, claimed is %g", epsilon, truth, upper)
			}
		}
	}
	events[0].Group = 0
	if _, err := (PLD{}).Epsilon(events, 1e-5); !errors.Is(err, ErrNotApplicable) {
		t.Errorf("add or remove with a cohort of fixed size: %v", err)
	}
}

// A user who is two clients, each sampled: all four cases of who is drawn.
func TestGroupAgainstAllCohorts(t *testing.T) {
	const q, sigma = 0.3, 1.5
	density := func(x, mean float64) float64 {
		z := (x - mean) / sigma
		return math.Exp(-z*z/2) / (sigma * math.Sqrt(2*math.Pi))
	}
	with := func(x float64) float64 {
		return (1-q)*(1-q)*density(x, 0) + 2*q*(1-q)*density(x, 1) + q*q*density(x, 2)
	}
	without := func(x float64) float64 { return density(x, 0) }
	events := []Event{{Sigma: sigma, SamplingRate: q, Group: 2, Count: 2}}
	for _, epsilon := range []float64{0.2, 1} {
		want := max(hockeyStick(with, without, epsilon), hockeyStick(without, with, epsilon))
		lower, upper := deltaBounds(t, PLD{}, events, epsilon)
		if !(lower <= want*(1+1e-4) && upper >= want*(1-1e-4) && upper < want*1.001) {
			t.Errorf("epsilon %g: delta between %g and %g, all outcomes give %g", epsilon, lower, upper, want)
		}
		if rdp, err := (RDP{}).Delta(events, epsilon); err != nil || rdp < want {
			t.Errorf("epsilon %g: rdp shows delta %g (%v), all outcomes give %g", epsilon, rdp, err, want)
		}
	}
	// Replaced by their opposites, both of them.
	flipped := func(x float64) float64 { return with(-x) }
	for _, epsilon := range []float64{0.2, 1} {
		want := hockeyStick(with, flipped, epsilon)
		if _, upper := deltaBounds(t, PLD{Relation: Replace}, events, epsilon); upper < want || upper > 4*want {
			t.Errorf("epsilon %g: delta %g is claimed for replacement, all outcomes give %g", epsilon, upper, want)
		}
	}
	// Where everybody takes part, two clients are one of twice the norm.
	two, _ := Exact{}.Epsilon([]Event{{Sigma: 6, Group: 2, Count: 4}}, 1e-5)
	one, _ := Exact{}.Epsilon([]Event{{Sigma: 3, Count: 4}}, 1e-5)
	if two != one {
		t.Errorf("a group of two of noise 6 has epsilon %g, one client of noise 3 %g", two, one)
	}
}

// randomEvents draws a sequence that a run could have.
func randomEvents(r interface {
	Float64() float64
	IntN(int) int
	NormFloat64() float64
}) []Event {
	var events []Event
	for range 1 + r.IntN(3) {
		e := Event{Sigma: math.Exp(0.7 + 0.6*r.NormFloat64()), Count: 1 + r.IntN(30)}
		if r.IntN(3) > 0 {
			e.SamplingRate = math.Pow(10, -2.5*r.Float64())
		}
		events = append(events, e)
	}
	return events
}

// What must hold whatever the events: bounds in order, PLD within RDP, more noise, fewer rounds, fewer clients drawn
// and a larger δ never cost more, and the order of releases does not matter.
func TestProperties(t *testing.T) {
	r := rng.New(1, t.Name())
	const near = 1 + 1e-3 // the grids of two calls differ
	p := PLD{Accuracy: 1e-4}
	for range 12 {
		events := randomEvents(r)
		delta := math.Pow(10, -2-7*r.Float64())
		lower, upper := bounds(t, p, events, delta)
		rdp, err := RDP{}.Epsilon(events, delta)
		if err != nil || upper > rdp*near+1e-6 {
			t.Errorf("%+v, delta %g: pld %g, rdp %g (%v)", events, delta, upper, rdp, err)
		}
		if upper-lower > 0.05*upper+0.02 {
			t.Errorf("%+v, delta %g: the bounds %g and %g are far apart", events, delta, lower, upper)
		}
		var reversed []Event
		for i := range events {
			reversed = append(reversed, events[len(events)-1-i])
		}
		if _, other := bounds(t, p, reversed, delta); math.Abs(other-upper) > 1e-9*upper {
			t.Errorf("%+v: epsilon %.15g, in another order %.15g", events, upper, other)
		}
		more := func(what string, cheaper bool, change func(e *Event)) {
			changed := append([]Event(nil), events...)
			at := r.IntN(len(changed))
			change(&changed[at])
			_, other := bounds(t, p, changed, delta)
			if cheaper && other > upper*near+1e-6 || !cheaper && other < upper/near-1e-6 {
				t.Errorf("%+v: epsilon %g, with %s %g", events, upper, what, other)
			}
		}
		more("more noise", true, func(e *Event) { e.Sigma *= 1.2 })
		more("more rounds", false, func(e *Event) { e.Count += 3 })
		more("a larger group", false, func(e *Event) { e.Group = 2 })
		more("half the sampling", true, func(e *Event) {
			if e.sampled() {
				e.SamplingRate /= 2
			} else {
				e.SamplingRate = 0.5
			}
		})
		if _, other := bounds(t, p, events, min(0.9, 3*delta)); other > upper*near+1e-6 {
			t.Errorf("%+v: epsilon %g at delta %g, %g at three times that", events, upper, delta, other)
		}
		low, high := deltaBounds(t, p, events, upper)
		if high < delta*(1-5e-2) || low > delta*(1+1e-12) || high > delta*1.05 {
			t.Errorf("%+v: delta %g gives epsilon %g and back delta %g to %g", events, delta, upper, low, high)
		}
	}
}

func TestEverybodySampledIsNoSampling(t *testing.T) {
	for _, sigma := range []float64{0.5, 2, 30} {
		exact, _ := Exact{}.Epsilon([]Event{{Sigma: sigma, Count: 7}}, 1e-5)
		_, all := bounds(t, PLD{}, []Event{{Sigma: sigma, SamplingRate: 1, Count: 7}}, 1e-5)
		lower, nearly := bounds(t, PLD{}, []Event{{Sigma: sigma, SamplingRate: 1 - 1e-9, Count: 7}}, 1e-5)
		if all != exact || nearly < exact*(1-1e-6) || nearly > exact*(1+1e-4) || lower > exact*(1+1e-6) {
			t.Errorf("sigma %g: exact %g, everybody %g, nearly everybody %g to %g", sigma, exact, all, lower, nearly)
		}
		// The grid against the closed form, through a Laplace release that reveals next to nothing.
		_, mixed := bounds(t, PLD{}, []Event{{Sigma: sigma, Count: 7}, {Mechanism: Laplace, Sigma: 1e7, Count: 1}},
			1e-5)
		if mixed < exact*(1-1e-6) || mixed > exact*(1+1e-4) {
			t.Errorf("sigma %g: exact %g, on the grid %g", sigma, exact, mixed)
		}
	}
}

// Tiny δ keep their relative accuracy, which a plain transform in float64 would not: the closed form has them too.
func TestTinyDeltas(t *testing.T) {
	for _, epsilon := range []float64{3, 6, 9, 12} {
		events := []Event{{Sigma: 2, Count: 3}, {Mechanism: Laplace, Sigma: 1e9, Count: 1}}
		want, _ := Exact{}.Delta(events[:1], epsilon)
		lower, upper := deltaBounds(t, PLD{}, events, epsilon)
		if upper < want*(1-1e-6) || upper > want*1.001 || lower > want {
			t.Errorf("epsilon %g: delta %g to %g, want %g", epsilon, lower, upper, want)
		}
	}
}

func TestLaplaceBruteForce(t *testing.T) {
	// n releases of integers with two outcomes each would be simple; Laplace noise has a loss of two atoms and a line
	// between them, which one release shows whole.
	for _, b := range []float64{0.3, 1, 8} {
		events := []Event{{Mechanism: Laplace, Sigma: b, Count: 1}}
		for _, x := range []float64{0, 0.3, 0.99} {
			want, err := Exact{}.Delta(events, x/b)
			if err != nil {
				t.Fatal(err)
			}
			lower, upper := deltaBounds(t, PLD{}, events, x/b)
			if lower > want+1e-12 || upper < want-1e-12 || upper > want*1.001+1e-5 {
				t.Errorf("b %g, epsilon %g: delta %g to %g, want %g", b, x/b, lower, upper, want)
			}
		}
		_, most := bounds(t, PLD{}, events, 1e-9)
		if most > 1/b*(1+1e-3) {
			t.Errorf("b %g: epsilon %g, pure is %g", b, most, 1/b)
		}
	}
	r, _ := RDP{}.Epsilon([]Event{{Mechanism: Laplace, Sigma: 2, Count: 1}}, 1e-300)
	if math.Abs(r-0.5) > 1e-2 {
		t.Errorf("Laplace by rdp at a vanishing delta: %g, want about 0.5", r)
	}
}

// The discrete Gaussian is close to the continuous one where its parameter is large, and its δ is what summing over the
// integers gives.
func TestDiscreteGaussian(t *testing.T) {
	for _, sigma := range []float64{0.6, 1.5, 9} {
		for _, epsilon := range []float64{0.01, 0.5, 2} {
			var total, sum float64
			for k := -400.0; k <= 400; k++ {
				p, q := math.Exp(-k*k/(2*sigma*sigma)), math.Exp(-(k+1)*(k+1)/(2*sigma*sigma))
				total += p
				sum += max(0, p-math.Exp(epsilon)*q)
			}
			events := []Event{{Mechanism: DiscreteGaussian, Sigma: sigma, Count: 1}}
			got, err := Exact{}.Delta(events, epsilon)
			if err != nil || math.Abs(got-sum/total) > 1e-12 {
				t.Errorf("sigma %g, epsilon %g: delta %g (%v), want %g", sigma, epsilon, got, err, sum/total)
			}
			lower, upper := deltaBounds(t, PLD{}, events, epsilon)
			if lower > got+1e-12 || upper < got-1e-12 {
				t.Errorf("sigma %g, epsilon %g: delta %g to %g, want %g", sigma, epsilon, lower, upper, got)
			}
		}
	}
	discrete, _ := Exact{}.Epsilon([]Event{{Mechanism: DiscreteGaussian, Sigma: 5000, Count: 1}}, 1e-5)
	continuous, _ := Exact{}.Epsilon([]Event{{Sigma: 5000, Count: 1}}, 1e-5)
	if math.Abs(discrete-continuous) > 1e-3*continuous+1e-9 {
		t.Errorf("discrete %g, continuous %g", discrete, continuous)
	}
	// Losses beyond the grid are left to RDP.
	if delta, err := (PLD{}).Delta([]Event{{Sigma: 0.5, SamplingRate: 0.1, Count: 10}}, 1000); delta > 1e-100 || err != nil {
		t.Errorf("delta at epsilon 1000: %g (%v)", delta, err)
	}
	far := []Event{{Mechanism: DiscreteGaussian, Sigma: 1e5, Count: 1}} // its terms begin where a float64 counts in twos
	if delta, err := (Exact{}).Delta(far, 1e6); delta != 0 || err != nil {
		t.Errorf("delta %g: %v", delta, err)
	}
}

// Fractional Rényi orders of sampled releases, where one library adds absolute values of an alternating series: the
// definition, as a sum over a fine grid, decides.
func TestFractionalOrdersByDefinition(t *testing.T) {
	for _, c := range []struct{ q, sigma, a float64 }{{0.01, 1, 1.5}, {0.2, 0.8, 2.3}, {0.5, 3, 1.1},
		{0.003, 0.7, 3.7}} {
		const h = 1e-3
		var sum float64
		for x := -40 * c.sigma; x <= 60*c.sigma; x += h {
			q := math.Exp(-x * x / (2 * c.sigma * c.sigma))
			ratio := 1 - c.q + c.q*math.Exp((2*x-1)/(2*c.sigma*c.sigma))
			sum += q * math.Pow(ratio, c.a)
		}
		want := math.Log(sum*h/(c.sigma*math.Sqrt(2*math.Pi))) / (c.a - 1)
		if got := sampledDivergence(c.q, c.sigma, c.a); math.Abs(got-want) > 1e-7*want+1e-10 {
			t.Errorf("%+v: %g, by definition %g", c, got, want)
		}
	}
}

func TestTreeAgainstAllPlacements(t *testing.T) {
	r := rng.New(1, t.Name())
	for range 60 {
		tree := Tree{Steps: 1 + r.IntN(14), MaxParticipation: 1 + r.IntN(4), MinSeparation: r.IntN(6)}
		if r.IntN(2) == 0 {
			tree.RealSteps = 1 + r.IntN(tree.Steps)
		}
		real := tree.RealSteps
		if real == 0 {
			real = tree.Steps
		}
		best := 0
		var place func(from int, chosen []int)
		place = func(from int, chosen []int) {
			total := 0
			for size := 1; size <= tree.Steps; size *= 2 {
				for start := 0; start+size <= tree.Steps; start += size {
					n := 0
					for _, c := range chosen {
						if c >= start && c < start+size {
							n++
						}
					}
					total += n * n
				}
			}
			best = max(best, total)
			if len(chosen) == tree.MaxParticipation {
				return
			}
			for c := from; c < real; c++ {
				place(c+tree.MinSeparation+1, append(chosen[:len(chosen):len(chosen)], c))
			}
		}
		place(0, nil)
		got, err := tree.SumSquares()
		if err != nil || got != best {
			t.Errorf("%+v: %d (%v), going through all placements gives %d", tree, got, err, best)
		}
		tree.Periodic = true
		if periodic, err := tree.SumSquares(); err != nil || periodic > got {
			t.Errorf("%+v: %d (%v) with exact separation, %d with any", tree, periodic, err, got)
		}
	}
	for _, bad := range []Tree{{}, {Steps: 4}, {Steps: 4, MaxParticipation: 1, RealSteps: 5},
		{Steps: 4, MaxParticipation: 1, MinSeparation: -1}} {
		if _, err := bad.SumSquares(); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	if _, err := (Tree{Steps: 1 << 20, MaxParticipation: 100, MinSeparation: 5000}).SumSquares(); !errors.Is(err,
		ErrNotApplicable) {
		t.Errorf("too much work: %v", err)
	}
}

// Calibration by every accountant: never above the target, and within a part in ten thousand of it.
func TestCalibrationIsConservative(t *testing.T) {
	for _, c := range []struct {
		a Accountant
		p Plan
	}{
		{PLD{}, Plan{Each: Event{SamplingRate: 0.014, Count: 20}}},
		{PLD{Accuracy: 1e-4}, Plan{Each: Event{SamplingRate: 0.05, Count: 100},
			Before: []Event{{Sigma: 20, Count: 2}}}},
		{PLD{Relation: Replace}, Plan{Each: Event{SamplingRate: 0.1, Count: 10}}},
		{PLD{Relation: Replace}, Plan{Each: Event{Population: 1000, Cohort: 100, Count: 10}}},
		{RDP{Relation: Replace}, Plan{Each: Event{Population: 1000, Cohort: 100, Count: 10}}},
		{Exact{Relation: Replace}, Plan{Each: Event{Count: 3}}},
		{RDP{}, Plan{Each: Event{Mechanism: Laplace, Count: 5}}},
		{PLD{}, Plan{Each: Event{Mechanism: Laplace, Count: 5}}},
	} {
		for _, target := range []float64{2} {
			sigma, err := c.p.Sigma(c.a, target, 1e-5)
			if err != nil {
				t.Fatalf("%s, %+v: %v", c.a.Name(), c.p, err)
			}
			spent, err := c.a.Epsilon(c.p.with(sigma, c.p.Each.Count), 1e-5)
			if err != nil || spent > target || spent < target*(1-1e-4) {
				t.Errorf("%s, %+v: sigma %g spends %g (%v) of %g", c.a.Name(), c.p, sigma, spent, err, target)
			}
			q := c.p
			q.Each.Sigma = sigma
			if n, err := q.Rounds(c.a, target, 1e-5, 100000); err != nil || n != c.p.Each.Count {
				t.Errorf("%s, %+v: %d rounds fit (%v), want %d", c.a.Name(), c.p, n, err, c.p.Each.Count)
			}
		}
	}
	p := Plan{Before: []Event{{Sigma: 1, Count: 1}}, Each: Event{Count: 1}}
	if _, err := p.Sigma(Exact{}, 1, 1e-5); err == nil {
		t.Error("a budget that is spent already was calibrated for")
	}
}

func TestExtremesOfPLD(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []Event
		least  float64
		most   float64
	}{
		{"no events", nil, 0, 0},
		{"no noise", []Event{{SamplingRate: 0.1, Count: 3}}, math.Inf(1), math.Inf(1)},
		{"infinite noise", []Event{{Sigma: math.Inf(1), SamplingRate: 0.1, Count: 3}}, 0, 0},
		{"huge noise", []Event{{Sigma: 1e8, SamplingRate: 0.1, Count: 3}}, 0, 1e-6},
		{"tiny rate", []Event{{Sigma: 1, SamplingRate: 1e-12, Count: 1000}}, 0, 1e-6},
		{"little noise", []Event{{Sigma: 0.06, SamplingRate: 0.5, Count: 1}}, 100, math.Inf(1)},
		{"hardly any noise", []Event{{Sigma: 1e-3, SamplingRate: 0.5, Count: 1}}, 500, math.Inf(1)},
	} {
		for _, p := range []PLD{{}, {Relation: Replace}} {
			_, got := bounds(t, p, c.events, 1e-5)
			if !(got >= c.least && got <= c.most) {
				t.Errorf("%s, %s: epsilon %g, want %g to %g", c.name, p.Relation, got, c.least, c.most)
			}
		}
	}
	if _, err := (PLD{Relation: "x"}).Epsilon(nil, 1e-5); err == nil {
		t.Error("a relation that is none: no error")
	}
}

func FuzzAccountants(f *testing.F) {
	f.Add(1.0, 0.1, 20, 0, 0, 0, 1e-5, byte(0))
	f.Add(0.0, 1.0, 1, 10, 100, 2, 0.5, byte(5))
	f.Add(1e-3, 1e-9, 100000, 0, 0, 3, 1e-12, byte(2))
	f.Fuzz(func(t *testing.T, sigma, q float64, count, cohort, population, group int, delta float64, kind byte) {
		if count > 1e6 || group > 5 || sigma < 0.05 && sigma > 0 {
			return // takes long, and shows nothing else
		}
		e := Event{Sigma: sigma, SamplingRate: q, Count: count, Cohort: cohort, Population: population, Group: group,
			Mechanism: []Mechanism{Gaussian, Laplace, DiscreteGaussian, "x"}[kind%4]}
		relation := []Relation{AddOrRemove, Replace}[kind/4%2]
		for _, a := range append(All(relation), clt{}) {
			epsilon, err := a.Epsilon([]Event{e}, delta)
			if err != nil {
				continue
			}
			if !(epsilon >= 0) {
				t.Errorf("%s, %+v, delta %g: epsilon %g", a.Name(), e, delta, epsilon)
			}
			if math.IsInf(epsilon, 1) {
				continue
			}
			back, err := a.Delta([]Event{e}, epsilon)
			if err != nil || !(back >= 0 && back <= 1) {
				t.Errorf("%s, %+v, epsilon %g: delta %g (%v)", a.Name(), e, epsilon, back, err)
			}
		}
	})
}

func BenchmarkPLD(b *testing.B) {
	for _, c := range []struct {
		q, sigma, delta float64
		rounds          int
	}{{0.014, 0.52, 3e-6, 20}, {0.014, 1.14, 3e-6, 20}, {0.00028, 1.67, 1.81e-6, 100_000}, {0.001, 1, 1e-6, 100_000}} {
		events := []Event{{Sigma: c.sigma, SamplingRate: c.q, Count: c.rounds}}
		b.Run(fmt.Sprintf("q=%g,sigma=%g,T=%d,delta=%g", c.q, c.sigma, c.rounds, c.delta), func(b *testing.B) {
			for b.Loop() {
				if _, err := (PLD{}).Epsilon(events, c.delta); err != nil {
					b.Fatal(err)
				}
			}
			lower, upper, _ := PLD{}.EpsilonBounds(events, c.delta)
			b.ReportMetric(upper, "epsilon")
			b.ReportMetric(upper-lower, "gap")
		})
	}
}

// Discrete noise is accounted as continuous noise of the same parameter in popri's runs: a distance that is larger by
// less than a step of the grid covers the difference, and runs count on two and more.
func TestOneStepCoversDiscreteness(t *testing.T) {
	for _, sigma := range []float64{50, 400, 3000} {
		for _, x := range []float64{0.02, 0.3, 1.1, 2.7} {
			shift := math.Round(x * sigma)
			for _, epsilon := range []float64{0, 0.01, 0.4, 1, 3, 8} {
				discrete, covered := discreteDelta(sigma, shift,
					epsilon), math.Exp(gaussianLogDelta((shift+1)/sigma, epsilon))
				if discrete > covered*(1+1e-10) {
					t.Errorf("sigma %g, shift %g, epsilon %g: discrete %g, continuous %g at one step more", sigma,
						shift, epsilon, discrete, covered)
				}
			}
		}
	}
}
