package sentence

import "math"

// bucketOf returns the bucket of a distance from a token to another one: half of the buckets are for tokens that
// follow. Of each half, the first half has one bucket for each distance, and the others grow like logarithms up to the
// largest distance (Raffel et al., arXiv 1910.10683, section 2.1).
func bucketOf(distance, buckets, most int) int {
	half, first := buckets/2, 0
	if distance > 0 {
		first = half
	}
	distance = max(distance, -distance)
	exact := half / 2
	if distance < exact {
		return first + distance
	}
	// In float32, as the reference: the limits of the buckets depend on the rounding.
	fraction := float32(math.Log(float64(float32(distance)/float32(exact)))) / float32(math.Log(float64(most)/float64(exact)))
	return first + min(half-1, exact+int(fraction*float32(half-exact)))
}

// RelativeBias returns what the scores of attention gain from the positions of two of n tokens, [heads, n, n]: the entry
// of a table [buckets, heads] for their distance.
func (c Config) RelativeBias(table []float32, n int) []float32 {
	out := make([]float32, 0, c.Heads*n*n)
	line := make([]float32, 2*n-1) // by distance, from -(n-1) on
	for head := range c.Heads {
		for i := range line {
			line[i] = table[bucketOf(i-n+1, c.Buckets, c.MaxDistance)*c.Heads+head]
		}
		for i := range n {
			out = append(out, line[n-1-i:2*n-1-i]...)
		}
	}
	return out
}
