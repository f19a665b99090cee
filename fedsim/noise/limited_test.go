package noise

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"popri/accountant"
	"popri/internal/rng"
)

// TestThreshold: of the counts 5, 3, 0, 0 with K = 2, δ0 = 1e-6 and ε0 = 1, ⊥ is at 0 + 1 + 2·ln(1e6) = 28.63.
func TestThreshold(t *testing.T) {
	if got := accountant.SelectionThreshold(2, 1e-6, 1, 2, 4); math.Abs(got-28.63) > .002 {
		t.Errorf("the threshold is %g", got)
	}
	// Without noise, counts of 40 and 35 would be selected, and counts of 5 not.
	if got := accountant.SelectionThreshold(2, 1e-6, 1, 2, 4); got >= 35 || got <= 5 {
		t.Errorf("the threshold is %g", got)
	}
	// min(g, K, n−K) elements can be in one domain alone.
	if got, want := accountant.SelectionThreshold(2, 1e-6, 5, 3, 20), 5+2*math.Log(3e6); math.Abs(got-want) > 1e-12 {
		t.Errorf("the threshold of groups is %g, want %g", got, want)
	}
}

// TestSelectionOfClearCounts: counts far above the threshold come in their order, and counts far below give nothing.
func TestSelectionOfClearCounts(t *testing.T) {
	l := LimitedDomain{Scale: .01, Domain: 2, Picks: 2, Slack: 1e-6} // hardly any noise
	for want, counts := range map[string][]int64{"[0 1]": {40, 35, 0, 0}, "[2 0]": {35, 0, 40, 0}, "[1]": {0, 9, 1, 1},
		"[]": {1, 1, 1, 1}} {
		got, err := l.Select(rng.New(1, "clear"), counts)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v: %v (%v), want %s", counts, got, err, want)
		}
	}
	l = LimitedDomain{Scale: 2, Domain: 2, Picks: 2, Slack: 1e-6}
	for range 200 {
		if got, err := l.Select(Secure(), []int64{5, 5, 0, 0}); err != nil || len(got) > 0 {
			t.Errorf("of 5, 5, 0, 0, %v is selected (%v)", got, err)
		}
	}
	exact := LimitedDomain{Domain: 3, Picks: 2, Slack: 1e-6}
	if got, err := exact.Select(nil, []int64{1, 7, 3, 9, 0}); err != nil || !slices.Equal(got, []int{3, 1}) {
		t.Errorf("without noise: %v (%v)", got, err)
	}
	for _, bad := range []LimitedDomain{{Scale: -1, Domain: 1, Picks: 1, Slack: .1}, {Scale: 1, Picks: 1, Slack: .1},
		{Scale: 1, Domain: 1, Slack: .1},
		{Scale: 1, Domain: 1, Picks: 1}, {Scale: 1e-9, Domain: 1, Picks: 1, Slack: .1}} {
		if _, err := bad.Select(nil, []int64{1, 2, 3}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestChoiceIsGumbelMax: a choice has probabilities in proportion to e^(ε0·h/2), and so has the index of the highest
// score plus Gumbel noise of scale 2/ε0.
func TestChoiceIsGumbelMax(t *testing.T) {
	const n = 100000
	epsilon0, scores := .3, []int64{0, 4, 9, 9, 15}
	sum, p := 0.0, make([]float64, len(scores))
	for j, h := range scores {
		p[j] = math.Exp(epsilon0 * float64(h) / 2)
		sum += p[j]
	}
	random := rng.New(2, "gumbel")
	exact, noised := make([]float64, len(p)), make([]float64, len(p))
	for range n {
		exact[choose(random, scores, uint64(math.Ldexp(epsilon0/2, 32)))]++
		best, most := 0, math.Inf(-1)
		for j, h := range scores {
			if v := float64(h) - 2/epsilon0*math.Log(random.ExpFloat64()); v > most {
				best, most = j, v
			}
		}
		noised[best]++
	}
	for name, counts := range map[string][]float64{"exact": exact, "Gumbel noise": noised} {
		statistic := 0.0
		for j := range p {
			want := n * p[j] / sum
			statistic += (counts[j] - want) * (counts[j] - want) / want
		}
		if tail := 1 - (distuv.ChiSquared{K: float64(len(p) - 1)}).CDF(statistic); tail < 1e-4 {
			t.Errorf("%s: counts %v, χ² = %g, p = %g", name, counts, statistic, tail)
		}
	}
}

// outcomes is the law of a selection by definition: every list of indices with its probability.
func outcomes(l LimitedDomain, counts []int64) map[string]float64 {
	order := make([]int, len(counts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(counts[b] - counts[a]) })
	rate := float64(l.rate()) / (1 << 32)
	gap := accountant.SelectionThreshold(1/rate, l.Slack, max(1, l.Group), l.Domain, len(counts))
	bottom := float64(counts[order[l.Domain]]) + math.Ceil(gap*(1+1e-12))
	out := map[string]float64{}
	var walk func(left, taken []int, p float64)
	walk = func(left, taken []int, p float64) {
		if len(taken) == l.Picks || len(left) == 0 {
			out[fmt.Sprint(taken)] += p
			return
		}
		sum := math.Exp(rate * bottom)
		for _, i := range left {
			sum += math.Exp(rate * float64(counts[i]))
		}
		out[fmt.Sprint(taken)] += p * math.Exp(rate*bottom) / sum
		for k, i := range left {
			rest := append(slices.Clone(left[:k]), left[k+1:]...)
			walk(rest, append(slices.Clone(taken), i), p*math.Exp(rate*float64(counts[i]))/sum)
		}
	}
	walk(order[:l.Domain], nil, 1)
	return out
}

// TestOrderWithoutNoise: at ε0 = 1, the likeliest list, which has the Gumbel noise 0, has the counts 40 and 35 in this
// order, wherever they are, and nothing of counts of 5.
func TestOrderWithoutNoise(t *testing.T) {
	l := LimitedDomain{Scale: 2, Domain: 2, Picks: 2, Slack: 1e-6}
	for want, counts := range map[string][]int64{"[0 1]": {40, 35, 0, 0}, "[3 1]": {0, 35, 0, 40}, "[]": {5, 5, 0, 0}} {
		likeliest, most := "", 0.0
		for list, p := range outcomes(l, counts) {
			if p > most {
				likeliest, most = list, p
			}
		}
		if likeliest != want {
			t.Errorf("%v: %s, want %s", counts, likeliest, want)
		}
	}
}

// hockey is the δ of two laws at ε, in the direction of the first.
func hockey(p, q map[string]float64, epsilon float64) (delta float64) {
	for o, x := range p {
		delta += max(0, x-math.Exp(epsilon)*q[o])
	}
	return delta
}

// TestSelectionsByEnumeration: for small histograms and all their neighbours, the exact δ of a selection is within what
// the accountant says, and the sampler draws from the law that is enumerated. For two selections in a row, likewise.
func TestSelectionsByEnumeration(t *testing.T) {
	random, tight := rng.New(3, "enumeration"), 0.0
	for trial := range 60 {
		n := 4 + random.IntN(3)
		l := LimitedDomain{Scale: []float64{1, 2, 5}[trial%3], Domain: 2 + random.IntN(n-3), Picks: 1 + random.IntN(3),
			Group: 1 + trial%2, Slack: []float64{1e-2, 1e-4}[trial%2]}
		counts := make([]int64, n)
		for j := range counts {
			counts[j] = int64(random.IntN(4))
		}
		if trial%4 > 0 { // some counts reach the threshold
			counts[0] += int64(accountant.SelectionThreshold(l.Scale, l.Slack, l.Group, l.Domain, n))
			counts[1] += counts[0] - 1
		}
		event := accountant.Event{Mechanism: accountant.Gumbel, Sigma: l.Scale, Group: l.Group, Count: 1,
			Picks: l.Picks, Slack: l.Slack}
		twice := event
		twice.Count = 2
		own := outcomes(l, counts)
		for a := range n {
			for b := range n {
				if l.Group == 1 && a != b {
					continue
				}
				other := slices.Clone(counts)
				if other[a]--; l.Group == 2 {
					other[b]--
				}
				if slices.Min(other) < 0 {
					continue
				}
				near := outcomes(l, other)
				for _, epsilon := range []float64{.05, .3, 1, 2} {
					said, err := accountant.RDP{Relation: accountant.ZeroOut}.Delta([]accountant.Event{event}, epsilon)
					if err != nil {
						t.Fatal(err)
					}
					found := max(hockey(own, near, epsilon), hockey(near, own, epsilon))
					if found > said+1e-12 {
						t.Fatalf("%+v of %v and %v at ε = %g: δ is %g, said %g", l, counts, other, epsilon, found, said)
					}
					tight = max(tight, found/said)
					if trial%5 > 0 {
						continue
					}
					pairs := func(x map[string]float64) map[string]float64 {
						out := map[string]float64{}
						for i, p := range x {
							for j, q := range x {
								out[i+j] += p * q
							}
						}
						return out
					}
					if said, err = (accountant.RDP{Relation: accountant.ZeroOut}).Delta([]accountant.Event{twice},
						epsilon); err != nil {
						t.Fatal(err)
					}
					if found := hockey(pairs(own), pairs(near), epsilon); found > said+1e-12 {
						t.Fatalf("two selections of %v and %v at ε = %g: δ is %g, said %g", counts, other, epsilon,
							found, said)
					}
				}
			}
		}
		if trial > 3 {
			continue
		}
		const draws = 20000
		seen := map[string]float64{}
		for range draws {
			got, err := l.Select(random, counts)
			if err != nil {
				t.Fatal(err)
			}
			seen[fmt.Sprint(got)]++
		}
		for o, p := range own {
			if sd := math.Sqrt(p * (1 - p) / draws); math.Abs(seen[o]/draws-p) > 5*sd+1e-4 {
				t.Errorf("%+v of %v: %s is drawn with %g, has probability %g", l, counts, o, seen[o]/draws, p)
			}
		}
	}
	if tight < .05 {
		t.Errorf("the largest δ is %g of what is said: the test tests little", tight)
	}
	t.Logf("the largest δ is %.3g of what is said", tight)
}
