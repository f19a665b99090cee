package accountant

import "math"

// laplaceDelta is the exact δ(ε) of one Laplace release: neighbouring sums differ by shift scales, and δ = 1 − e^((ε −
// shift)/2) for ε below shift, else 0.
func laplaceDelta(shift, epsilon float64) float64 {
	if epsilon >= shift {
		return 0
	}
	return -math.Expm1((epsilon - shift) / 2)
}

// laplaceDivergence returns the Rényi divergence of order a > 1 of a Laplace release whose neighbouring sums differ by
// shift scales (Mironov 2017, table II):
//
//	r = ln( a/(2a−1)·e^((a−1)·shift) + (a−1)/(2a−1)·e^(−a·shift) ) / (a − 1)
//
// Small shifts lose digits in the logarithm, so the sum less 1 is formed first.
func laplaceDivergence(shift, a float64) float64 {
	if math.IsInf(shift, 1) {
		return shift
	}
	up := (a - 1) * shift
	if up > 30 {
		return shift + (math.Log(a/(2*a-1))+math.Log1p((a-1)/a*math.Exp(-(2*a-1)*shift)))/(a-1)
	}
	return math.Log1p((a*math.Expm1(up)+(a-1)*math.Expm1(-a*shift))/(2*a-1)) / (a - 1)
}
