package accountant

import "math"

// The bound below uses forward differences up to this order and from this noise on: with less noise they are the larger
// of both bounds, and take 1/σ² steps.
const (
	largestExactOrder = 256
	leastExactSigma   = 0.1
)

// fixedDivergence bounds the Rényi divergence of one Gaussian release on a fraction rate of the clients, drawn without
// replacement, where one client is replaced and sigma is relative to the distance of neighbouring sums (Wang, Balle and
// Kasiviswanathan 2019, theorem 27). With f(x) = exp((x−1)·r(x)) and r(x) = x/2σ² of the release on everybody, for
// whole orders a,
//
//	e^((a−1)r) ≤ 1 + C(a,2)·γ²·min(4(f(2) − 1), 2f(2)) + Σ_{j=3..a} C(a,j)·γ^j·min(4·√(B(2⌊j/2⌋)·B(2⌈j/2⌉)), 2f(j))
//
// where B(l) = Δ^l f(0) is the forward difference. Between whole orders (a−1)·r is convex, so the chord bounds it.
func fixedDivergence(rate, sigma float64) func(order float64) float64 {
	cgf := func(x float64) float64 { return x * (x + 1) / (2 * sigma * sigma) } // ln f(x+1)
	// ln of Δ^l f(0), by l/2; shared by the orders
	var differences []float64
	whole := func(a float64) float64 {
		switch {
		case a <= 1:
			return 0
		case sigma == 0 || a > 1<<14:
			return math.Inf(1)
		}
		exact := a <= largestExactOrder && sigma >= leastExactSigma
		if exact {
			for l := 2 * len(differences); l <= int(a)+1; l += 2 {
				differences = append(differences, centralMoment(sigma, float64(l)))
			}
		}
		var sum logSum
		sum.add(0)
		logRate := math.Log(rate)
		top, _ := math.Lgamma(a + 1)
		for j := 2.0; j <= a; j++ {
			var bound float64
			switch {
			case j == 2:
				two := 1 / (sigma * sigma) // r(2)
				bound = math.Min(math.Log(4)+logExpm1(two), math.Log(2)+two)
			case exact:
				low, high := differences[int(math.Floor(j/2))], differences[int(math.Ceil(j/2))]
				bound = math.Min(math.Log(4)+(low+high)/2, math.Log(2)+cgf(j-1))
			default:
				bound = math.Log(2) + cgf(j-1)
			}
			chosen, _ := math.Lgamma(j + 1)
			left, _ := math.Lgamma(a - j + 1)
			sum.add(top - chosen - left + j*logRate + bound)
		}
		return sum.log()
	}
	return func(a float64) float64 {
		floor := math.Floor(a)
		if a == floor {
			return whole(a) / (a - 1)
		}
		t := a - floor
		return ((1-t)*whole(floor) + t*whole(floor+1)) / (a - 1)
	}
}

// centralMoment returns ln E[(Y − 1)^l] for even l, where Y = e^(x/σ − 1/2σ²), x ~ N(0, 1), is the ratio of the
// densities of two neighbours. As E[Y^k] = e^(k(k−1)/2σ²) = f(k), that is the forward difference Δ^l f(0) as an
// integral over something that is never negative, where the sum of alternating signs would lose all digits for large σ.
// The trapezoid rule converges faster than any power of the step, for the integrand is analytic everywhere.
func centralMoment(sigma, l float64) float64 {
	if l == 0 {
		return 0
	}
	step := math.Min(1, sigma) / 8
	reach := 10 + math.Sqrt(2*l) // the integrand's other peaks are where |x|^l meets the density
	var sum logSum
	for x := -reach; x <= l/sigma+reach; x += step {
		y := x/sigma - 1/(2*sigma*sigma)
		var log float64
		if y > 30 {
			log = y
		} else {
			log = math.Log(math.Abs(math.Expm1(y)))
		}
		sum.add(l*log + logDensity(x))
	}
	return sum.log() + math.Log(step)
}
