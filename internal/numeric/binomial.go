package numeric

import (
	"gonum.org/v1/gonum/mathext"
)

// ProbabilityAtLeast and ProbabilityAtMost are the exact (Clopper-Pearson) bounds on a probability with k hits in n
// trials; each is wrong with probability miss at most.
func ProbabilityAtLeast(k, n int, miss float64) float64 {
	if k == 0 {
		return 0
	}
	return betaQuantile(float64(k), float64(n-k+1), miss)
}

// ProbabilityAtMost is the upper bound, see [ProbabilityAtLeast].
func ProbabilityAtMost(k, n int, miss float64) float64 {
	if k == n {
		return 1
	}
	return 1 - betaQuantile(float64(n-k), float64(k+1), miss)
}

// betaQuantile inverts the regularised incomplete beta function by bisection. (The library's inverse gives up at tiny
// probabilities.)
func betaQuantile(a, b, p float64) float64 {
	low, _ := Bisect(0, 1, func(x float64) bool { return mathext.RegIncBeta(a, b, x) < p })
	return low
}
