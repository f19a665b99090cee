package accountant

import (
	"fmt"
	"math"
)

// RDP bounds (ε, δ) through Rényi divergences (Mironov 2017), with the conversion of Canonne, Kamath and Steinke 2020
// (proposition 12): for each order α at which the divergence is r,
//
//	ε = r + ln(1 − 1/α) − ln(δα)/(α − 1)
//
// holds, and the least over the orders is returned. The zero value uses usualOrders and the bound below.
type RDP struct {
	// Relation is which data sets are neighbours; the zero value is [AddOrRemove], which has the bounds of [ZeroOut].
	Relation Relation

	// orders, if not nil, are the orders of a library to compare with, each above 1.
	orders []float64
	// noKLBound leaves out the bound δ ≤ sqrt(1 − exp(−r)). That bound gives ε = 0 under strong noise, where every
	// order's conversion stays above a positive floor. Some libraries do not use it.
	noKLBound bool
}

// usualOrders are dense where few rounds or little noise put the best order, and reach far enough for small ε.
var usualOrders = defaultOrders()

func defaultOrders() []float64 {
	var orders []float64
	for i := 1; i < 100; i++ {
		orders = append(orders, 1+float64(i)/10)
	}
	for i := 11; i < 64; i++ {
		orders = append(orders, float64(i))
	}
	for a := 64.0; a <= 1<<20; a *= 1.05 {
		orders = append(orders, math.Floor(a))
	}
	return orders
}

// Name implements [Accountant].
func (RDP) Name() string { return "rdp" }

// Epsilon implements [Accountant].
func (r RDP) Epsilon(events []Event, delta float64) (float64, error) {
	if err := validDelta(delta); err != nil {
		return 0, err
	}
	orders, divergences, err := r.curve(events)
	if err != nil {
		return 0, err
	}
	if delta -= slack(events); !(delta > 0) {
		return math.Inf(1), nil
	}
	return rdpEpsilon(orders, divergences, delta, !r.noKLBound), nil
}

// Delta implements [Accountant].
func (r RDP) Delta(events []Event, epsilon float64) (float64, error) {
	if err := validEpsilon(epsilon); err != nil {
		return 0, err
	}
	orders, divergences, err := r.curve(events)
	if err != nil {
		return 0, err
	}
	return math.Min(1, rdpDelta(orders, divergences, epsilon, !r.noKLBound)+slack(events)), nil
}

// curve adds the divergences of all events at each order.
func (r RDP) curve(events []Event) (orders, divergences []float64, err error) {
	if orders = r.orders; orders == nil {
		orders = usualOrders
	}
	relation, events, err := checked(r.Relation, events)
	if err != nil {
		return nil, nil, err
	}
	divergences = make([]float64, len(orders))
	for _, e := range events {
		divergence, err := e.divergence(relation)
		if err != nil {
			return nil, nil, err
		}
		for i, a := range orders {
			divergences[i] += float64(e.Count) * divergence(a)
		}
	}
	return orders, divergences, nil
}

// divergence returns the Rényi divergence of one release as a function of the order.
func (e Event) divergence(r Relation) (func(order float64) float64, error) {
	sigma := e.Sigma / e.shift(r)
	switch {
	case e.plain(), e.Mechanism == DiscreteGaussian && !e.sampled() && !e.fixed():
		// The discrete Gaussian's divergence is no larger than the continuous one's (Canonne, Kamath and Steinke 2020,
		// proposition 5).
		return func(a float64) float64 { return a / (2 * sigma * sigma) }, nil
	case e.Mechanism == Gumbel:
		return func(a float64) float64 { return selectionDivergence(e.Picks, 1/sigma, a) }, nil
	case e.Mechanism == Laplace && !e.sampled() && !e.fixed():
		return func(a float64) float64 { return laplaceDivergence(1/sigma, a) }, nil
	case e.continuous() && e.sampled() && r != Replace:
		// A group moves the sum by at most its size whenever any of its clients is drawn.
		q := e.hit()
		return func(a float64) float64 { return sampledDivergence(q, sigma, a) }, nil
	case e.continuous() && e.fixed() && e.group() == 1:
		return fixedDivergence(float64(e.Cohort)/float64(e.Population), sigma), nil
	}
	return nil, fmt.Errorf("%w: no Rényi bound is built for mechanism %q at rate %g, cohort %d of %d, groups of "+
		"%g, relation %q", ErrNotApplicable, e.Mechanism, e.SamplingRate, e.Cohort, e.Population, e.group(), r)
}

// leastOrder keeps the conversion away from α = 1, where it loses all digits and gives no useful bound.
const leastOrder = 1.01

// rdpEpsilon converts a curve; divergences may be +Inf.
func rdpEpsilon(orders, divergences []float64, delta float64, klBound bool) float64 {
	best := math.Inf(1)
	for i, a := range orders {
		r := divergences[i]
		if r == 0 || klBound && delta*delta+math.Expm1(-r) > 0 {
			return 0
		}
		if a > leastOrder {
			best = min(best, r+math.Log1p(-1/a)-math.Log(delta*a)/(a-1))
		}
	}
	return max(0, best)
}

func rdpDelta(orders, divergences []float64, epsilon float64, klBound bool) float64 {
	best := 0.0 // of ln δ
	for i, a := range orders {
		r := divergences[i]
		if r == 0 {
			return 0
		}
		if klBound {
			best = min(best, 0.5*math.Log(-math.Expm1(-r)))
		}
		if a > leastOrder {
			best = min(best, (a-1)*(r-epsilon+math.Log1p(-1/a))-math.Log(a))
		}
	}
	return math.Exp(best)
}
