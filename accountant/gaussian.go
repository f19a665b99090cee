package accountant

import (
	"fmt"
	"math"
)

// Exact is the accountant of Gaussian releases on all clients: no bound can be lower. The zero value is ready.
type Exact struct{}

// Name implements [Accountant].
func (Exact) Name() string { return "exact" }

// Relation implements [Accountant].
func (Exact) Relation() Relation { return AddOrRemove }

// Epsilon implements [Accountant]. The result is at least the true ε up to the rounding of δ(ε), a few parts in 1e15.
func (Exact) Epsilon(events []Event, delta float64) (float64, error) {
	if err := validDelta(delta); err != nil {
		return 0, err
	}
	mu, err := totalMu(events)
	if err != nil {
		return 0, err
	}
	return gaussianEpsilon(mu, delta), nil
}

// Delta implements [Accountant].
func (Exact) Delta(events []Event, epsilon float64) (float64, error) {
	if err := validEpsilon(epsilon); err != nil {
		return 0, err
	}
	mu, err := totalMu(events)
	if err != nil {
		return 0, err
	}
	return math.Exp(gaussianLogDelta(mu, epsilon)), nil
}

// totalMu composes Gaussian releases: the squares of 1/σ add up.
func totalMu(events []Event) (float64, error) {
	var squares float64
	for _, e := range events {
		if err := e.validate(); err != nil {
			return 0, err
		}
		if e.Count == 0 {
			continue
		}
		if e.sampled() {
			return 0, fmt.Errorf("%w: the exact formula holds where all clients take part, not at sampling rate %g", ErrNotApplicable, e.SamplingRate)
		}
		squares += float64(e.Count) / (e.Sigma * e.Sigma)
	}
	return math.Sqrt(squares), nil
}

// gaussianEpsilon inverts gaussianLogDelta by bisection and returns the end that is within δ.
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
	for {
		middle := low + (high-low)/2
		if middle <= low || middle >= high {
			return high
		}
		if gaussianLogDelta(mu, middle) <= target {
			high = middle
		} else {
			low = middle
		}
	}
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

// fractionFrom is where the continued fraction of the Mills ratio takes over from the error function: from here on it
// converges within 200 terms, and up to here the error function loses nothing.
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
