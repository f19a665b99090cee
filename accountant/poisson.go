package accountant

import "math"

// largestSampledOrder bounds the orders that are tried where clients are sampled: sums over the binomial coefficients
// of larger orders take long and improve only an ε near 0.
const largestSampledOrder = 1024

// sampledDivergence returns the Rényi divergence of order a > 1 of one Gaussian release with noise multiplier sigma on
// a Poisson sample of rate 0 < q < 1 (Mironov, Talwar and Zhang 2019, equation 3):
//
//	r = ln(A)/(a − 1),   A = E[(1 + u)^a],   u = q(e^w − 1),   w = (2x − 1)/(2σ²),   x ~ N(0, σ²)
//
// Since E[u] = 0, A − 1 = E[(1 + u)^a − 1 − a·u], whose integrand is nowhere negative (Bernoulli): nothing cancels,
// however small q is.
func sampledDivergence(q, sigma, a float64) float64 {
	if sigma == 0 || a > largestSampledOrder {
		return math.Inf(1)
	}
	if math.IsInf(sigma, 1) {
		return 0
	}
	whole := math.Floor(a)
	if a != whole && sigma < 0.05 {
		// The integral would take very many steps. (a − 1)·r is convex in a and 0 at a = 1, so the line between the
		// neighbouring whole orders is above it: still a bound.
		above := whole * sampledDivergence(q, sigma, whole+1)
		if whole == 1 {
			return above
		}
		below := (whole - 1) * sampledDivergence(q, sigma, whole)
		return (below + (a-whole)*(above-below)) / (a - 1)
	}
	var logExcess float64 // ln(A − 1)
	if a == whole {
		logExcess = binomialExcess(q, sigma, a)
	} else {
		logExcess = integralExcess(q, sigma, a)
	}
	if logExcess < 0 {
		return math.Log1p(math.Exp(logExcess)) / (a - 1)
	}
	return (logExcess + math.Log1p(math.Exp(-logExcess))) / (a - 1)
}

// binomialExcess is exact for integer orders: A − 1 = Σ_k C(a, k) q^k (1−q)^(a−k) (e^((k²−k)/2σ²) − 1), from k = 2.
func binomialExcess(q, sigma, a float64) float64 {
	var sum logSum
	top, _ := math.Lgamma(a + 1)
	logQ, logRest := math.Log(q), math.Log1p(-q)
	for k := 2.0; k <= a; k++ {
		chosen, _ := math.Lgamma(k + 1)
		left, _ := math.Lgamma(a - k + 1)
		sum.add(top - chosen - left + k*logQ + (a-k)*logRest + logExpm1(k*(k-1)/(2*sigma*sigma)))
	}
	return sum.log()
}

// integralExcess takes the trapezoid rule over the real line, which for an analytic integrand converges faster than
// any power of the step. The nearest singularity, where 1 + u = 0, is πσ² off the line.
func integralExcess(q, sigma, a float64) float64 {
	step := min(sigma/6, sigma*sigma/3)
	var sum logSum
	// The integrand is normal around 0 and, where u is large, around a; 10σ beyond these it is below 1e-21 of its peak.
	for x := -10 * sigma; x <= a+10*sigma; x += step {
		sum.add(logBernoulli(q, a, (2*x-1)/(2*sigma*sigma)) - x*x/(2*sigma*sigma))
	}
	return sum.log() + math.Log(step/sigma) - 0.5*math.Log(2*math.Pi)
}

// logBernoulli returns ln((1 + u)^a − 1 − a·u) for u = q(e^w − 1).
func logBernoulli(q, a, w float64) float64 {
	if w > 600 { // e^w is all there is
		return a * (math.Log(q) + w)
	}
	u := q * math.Expm1(w)
	if math.Abs(u) < 1e-3/a { // the difference has lost its digits; its series has not
		c := a * (a - 1) / 2 * u * u
		return math.Log(c) + math.Log1p(u*(a-2)/3*(1+u*(a-3)/4*(1+u*(a-4)/5)))
	}
	if log := a * math.Log1p(u); log > 300 {
		return log
	} else {
		return math.Log(max(0, math.Expm1(log)-a*u))
	}
}

// logExpm1 returns ln(e^x − 1) for x > 0.
func logExpm1(x float64) float64 {
	if x > 40 {
		return x
	}
	return math.Log(math.Expm1(x))
}

// logSum adds numbers given by their logarithms.
type logSum struct{ top, rest float64 } // the sum is e^top·rest

func (s *logSum) add(log float64) {
	switch {
	case math.IsInf(log, -1):
	case s.rest == 0:
		s.top, s.rest = log, 1
	case log <= s.top:
		s.rest += math.Exp(log - s.top)
	default:
		s.rest = s.rest*math.Exp(s.top-log) + 1
		s.top = log
	}
}

func (s *logSum) log() float64 { return s.top + math.Log(s.rest) }
