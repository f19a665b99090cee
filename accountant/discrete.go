package accountant

import "math"

// discreteDelta is the exact δ(ε) of one release of integers with discrete Gaussian noise of parameter sigma whose
// neighbouring sums differ by shift, a whole number (Canonne, Kamath and Steinke 2020, theorem 7):
//
//	δ = P[X > εσ²/s − s/2] − e^ε·P[X > εσ²/s + s/2]
//
// summed term by term: e^ε·p(k + s) < p(k) for all k that count, and p(k) − e^ε·p(k+s) = p(k)·(1 − e^(ε − loss)).
func discreteDelta(sigma, shift, epsilon float64) float64 {
	switch {
	case sigma == 0:
		return 1
	case math.IsInf(epsilon, 1) || math.IsInf(sigma, 1):
		return 0
	}
	// k runs over the noise for which the loss (2k + s)·s/2σ² exceeds ε.
	first := math.Floor(epsilon*sigma*sigma/shift-shift/2) + 1
	if first > 40*sigma { // each term underflows, and k + 1 may be k
		return 0
	}
	var sum float64
	for k := first; ; k++ {
		log := -k * k / (2 * sigma * sigma)
		loss := (2*k + shift) * shift / (2 * sigma * sigma)
		term := math.Exp(log) * -math.Expm1(epsilon-loss)
		sum += term
		if k > 0 && k > first && (term < 1e-18*sum || term == 0) {
			break
		}
	}
	return sum / discreteTotal(sigma)
}

// discreteTotal returns Σ exp(−k²/2σ²) over all integers: by Poisson summation it is σ·√2π but for terms that vanish
// quickly as σ grows, and itself where σ is small.
func discreteTotal(sigma float64) float64 {
	if sigma > 3 {
		return sigma * math.Sqrt(2*math.Pi) * (1 + 2*math.Exp(-2*math.Pi*math.Pi*sigma*sigma))
	}
	sum := 1.0
	for k := 1.0; k <= 40*sigma+1; k++ {
		sum += 2 * math.Exp(-k*k/(2*sigma*sigma))
	}
	return sum
}

// mostDiscrete is the largest parameter for which sums over the integers are formed.
const mostDiscrete = 1e5
