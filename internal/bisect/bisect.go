// Package bisect finds where a monotonic condition changes between two numbers.
package bisect

// Between narrows an interval until no float64 lies inside. It keeps below true at its lower end and false at its upper
// one, as they have to be at first.
func Between(low, high float64, below func(x float64) bool) (float64, float64) {
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
