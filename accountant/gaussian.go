package accountant

import (
	"fmt"
	"math"

	"popri/internal/numeric"
)

// Exact is the accountant of Gaussian releases on all clients, of one Laplace release and of one release of integers
// with discrete Gaussian noise: no bound can be lower. The zero value is ready.
type Exact struct {
	Relation Relation // the zero value is [AddOrRemove], which has the bounds of [ZeroOut]
}

// Name implements [Accountant].
func (Exact) Name() string { return "exact" }

// Epsilon implements [Accountant]. The result is at least the true ε up to the rounding of δ(ε), a few parts in 1e15.
func (x Exact) Epsilon(events []Event, delta float64) (float64, error) {
	if err := validDelta(delta); err != nil {
		return 0, err
	}
	r, events, err := checked(x.Relation, events)
	if err != nil {
		return 0, err
	}
	if single, ok := singleDelta(events, r); ok {
		return invert(single, delta), nil
	}
	mu, err := totalMu(events, r)
	if err != nil {
		return 0, err
	}
	return gaussianEpsilon(mu, delta), nil
}

// Delta implements [Accountant].
func (x Exact) Delta(events []Event, epsilon float64) (float64, error) {
	if err := validEpsilon(epsilon); err != nil {
		return 0, err
	}
	r, events, err := checked(x.Relation, events)
	if err != nil {
		return 0, err
	}
	if single, ok := singleDelta(events, r); ok {
		return single(epsilon), nil
	}
	mu, err := totalMu(events, r)
	if err != nil {
		return 0, err
	}
	return math.Exp(gaussianLogDelta(mu, epsilon)), nil
}

// checked validates the relation and the events, and joins equal events.
func checked(relation Relation, events []Event) (Relation, []Event, error) {
	r, err := validRelation(relation)
	if err != nil {
		return r, nil, err
	}
	for _, e := range events {
		if err := e.validate(); err != nil {
			return r, nil, err
		}
		if e.Count == 0 {
			continue
		}
		if err := e.covered(r); err != nil {
			return r, nil, err
		}
	}
	return r, merge(events), nil
}

// totalMu composes Gaussian releases: the squares of shift/σ add up.
func totalMu(events []Event, r Relation) (float64, error) {
	var squares float64
	for _, e := range events {
		if !e.plain() {
			return 0, fmt.Errorf("%w: the exact formula holds for Gaussian noise where all clients take part", ErrNotApplicable)
		}
		s := e.Sigma / e.shift(r)
		squares += float64(e.Count) / (s * s)
	}
	return math.Sqrt(squares), nil
}

// singleDelta returns δ(ε) of one release with noise other than Gaussian, if the events are one such release.
func singleDelta(events []Event, r Relation) (func(epsilon float64) float64, bool) {
	if len(events) != 1 {
		return nil, false
	}
	e := events[0]
	if e.Count != 1 || e.Mechanism == Gumbel || e.continuous() || e.sampled() || e.fixed() ||
		e.Mechanism == DiscreteGaussian && e.Sigma > mostDiscrete {
		return nil, false
	}
	if e.Mechanism == Laplace {
		return func(epsilon float64) float64 { return laplaceDelta(e.shift(r)/e.Sigma, epsilon) }, true
	}
	return func(epsilon float64) float64 { return discreteDelta(e.Sigma, e.shift(r), epsilon) }, true
}

// invert returns the least ε at which a falling δ(ε) is at most delta, by bisection to the last bit.
func invert(f func(epsilon float64) float64, delta float64) float64 {
	if f(0) <= delta {
		return 0
	}
	low, high := 0.0, 1.0
	for f(high) > delta {
		if low, high = high, 2*high; math.IsInf(high, 1) {
			return high
		}
	}
	_, high = numeric.Bisect(low, high, func(epsilon float64) bool { return !(f(epsilon) <= delta) })
	return high
}

// gaussianEpsilon inverts gaussianLogDelta by bisection and returns the end of the interval that keeps δ.
func gaussianEpsilon(mu, delta float64) float64 {
	target := math.Log(delta)
	switch {
	case mu == 0 || gaussianLogDelta(mu, 0) <= target:
		return 0
	case math.IsInf(mu, 1):
		return math.Inf(1)
	}
	// By the tail bound of the privacy loss, which is normal with mean μ²/2 and variance μ², this is enough.
	low, high := 0.0, mu*mu/2+mu*math.Sqrt(2*-target)
	for gaussianLogDelta(mu, high) > target { // rounding of the bound itself
		high *= 1 + 1e-12
	}
	_, high = numeric.Bisect(low, high, func(epsilon float64) bool { return !(gaussianLogDelta(mu, epsilon) <= target) })
	return high
}

// gaussianLogDelta returns ln δ(ε). With a = ε/μ − μ/2, b = a + μ and the normal density φ, e^ε φ(b) = φ(a), so
//
//	δ = φ(a)·(m(a) − m(b)),   m(x) = (1 − Φ(x))/φ(x) the Mills ratio, −m′(x) = 1 − x·m(x)
//
// which needs no e^ε. Where m(a) and m(b) are close, their difference is the integral of −m′, which does not cancel.
func gaussianLogDelta(mu, epsilon float64) float64 {
	switch {
	case mu == 0 || math.IsInf(epsilon, 1):
		return math.Inf(-1)
	case math.IsInf(mu, 1):
		return 0
	}
	a := epsilon/mu - mu/2
	b := epsilon/mu + mu/2
	if b-a < 0.5*max(1, a) {
		return logDensity(a) + math.Log(millsDifference(a, mu))
	}
	if a > 0 {
		return logDensity(a) + math.Log(mills(a)-mills(b))
	}
	return math.Log(0.5*math.Erfc(a/math.Sqrt2) - math.Exp(logDensity(a))*mills(b))
}

func logDensity(x float64) float64 { return -0.5*x*x - 0.5*math.Log(2*math.Pi) }

// fractionFrom is where the continued fraction of the Mills ratio replaces the error function: above it the fraction
// converges within 200 terms, and below it the error function loses no digits.
const fractionFrom = 2

// mills returns (1 − Φ(x))/φ(x) for x ≥ −1.
func mills(x float64) float64 {
	if x < fractionFrom {
		return math.Sqrt(math.Pi/2) * math.Erfc(x/math.Sqrt2) * math.Exp(x*x/2)
	}
	return 1 / (x + millsTail(x))
}

// millsSlope returns 1 − x·m(x), which is −m′(x).
func millsSlope(x float64) float64 {
	if x < fractionFrom {
		return 1 - x*mills(x)
	}
	r := millsTail(x)
	return r / (x + r)
}

// millsTail returns 1/(x + 2/(x + 3/(x + …))), for x ≥ fractionFrom.
func millsTail(x float64) float64 {
	terms := 10 + int(800/(x*x))
	t := x
	for k := terms; k >= 2; k-- {
		t = x + float64(k)/t
	}
	return 1 / t
}

// millsDifference returns m(a) − m(a+μ) by Gauss-Legendre quadrature of −m′.
func millsDifference(a, mu float64) float64 {
	var sum float64
	for i, x := range legendreNodes {
		sum += legendreWeights[i] * (millsSlope(a+mu/2*(1+x)) + millsSlope(a+mu/2*(1-x)))
	}
	return sum * mu / 2
}

// The positive nodes of the 20-point Gauss-Legendre rule on [−1, 1] and their weights.
var legendreNodes, legendreWeights = legendre(20)

// legendre computes the rule of even order n by Newton's method on the Legendre polynomial.
func legendre(n int) (nodes, weights []float64) {
	for i := range n / 2 {
		x := math.Cos(math.Pi * (float64(i) + 0.75) / (float64(n) + 0.5))
		var slope float64
		for range 100 {
			p0, p1 := 1.0, x
			for k := 2; k <= n; k++ {
				p0, p1 = p1, (float64(2*k-1)*x*p1-float64(k-1)*p0)/float64(k)
			}
			slope = float64(n) * (x*p1 - p0) / (x*x - 1)
			step := p1 / slope
			x -= step
			if math.Abs(step) < 1e-16 {
				break
			}
		}
		nodes = append(nodes, x)
		weights = append(weights, 2/((1-x*x)*slope*slope))
	}
	return nodes, weights
}
