// Package numeric has bisection, the exact bounds on a binomial probability, clusters of points, indices in the order of
// a comparison, what is made of lists (lists, sets and numbers), and whether numbers are finite.
package numeric

import (
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// Bisect narrows an interval until no float64 is inside. It keeps below true at its lower end and false at its upper
// one, as they have to be at first.
func Bisect(low, high float64, below func(x float64) bool) (float64, float64) {
	for {
		middle := low + (high-low)/2
		if middle <= low || middle >= high {
			return low, high
		}
		if below(middle) {
			low = middle
		} else {
			high = middle
		}
	}
}

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

// Indices returns the numbers from 0 to n−1.
func Indices(n int) []int { return Tabulate(n, func(i int) int { return i }) }

// SortedIndices returns the numbers from 0 to n−1 in the order of compare, which gets two of them. Equal ones ascend.
func SortedIndices(n int, compare func(a, b int) int) []int {
	all := Indices(n)
	slices.SortStableFunc(all, compare)
	return all
}
