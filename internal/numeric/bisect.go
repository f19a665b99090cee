// Package numeric has bisection, the exact bounds on a binomial probability, and indices in the order of a comparison.
package numeric

// Bisect narrows an interval until no float64 lies inside. It keeps below true at its lower end and false at its upper
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
