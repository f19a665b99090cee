package wasp

import (
	"cmp"
	"math"
	"math/rand/v2"

	"popri/internal/numeric"
)

// weights are the generators' weights by the near votes of the texts in D and the generator of each, of k: w = (share
// of the votes) / (share of D). Votes below 0 count as 0. They add up to about k where the generators have as many
// texts; all are 1 where nothing has votes. A generator without texts gets 0.
func weights(near []float64, of []int, k int) []float64 {
	votes, texts := make([]float64, k), make([]float64, k)
	total := 0.0
	for i, v := range near {
		votes[of[i]] += max(0, v)
		total += max(0, v)
		texts[of[i]]++
	}
	out := make([]float64, k)
	for j := range out {
		switch {
		case total == 0:
			out[j] = 1
		case texts[j] > 0:
			out[j] = votes[j] / total * float64(len(near)) / texts[j]
		}
	}
	return out
}

// shares divides n texts in proportion to weights: whole numbers that add up to n, each less than 1 away from its exact
// share (the largest remainders are rounded up, ties to the lower index).
func shares(n int, weights []float64) []int {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	out, left := make([]int, len(weights)), n
	rest := make([]float64, len(weights))
	for i, w := range weights {
		exact := w / total * float64(n)
		out[i] = int(math.Floor(exact))
		rest[i], left = exact-math.Floor(exact), left-out[i]
	}
	for _, i := range numeric.SortedIndices(len(weights),
		func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })[:max(0, left)] {
		out[i]++
	}
	return out
}

// part is the number of texts of part t of n texts in parts, t from 1.
func part(n, parts, t int) int { return n*t/parts - n*(t-1)/parts }

// labelled are the labels of n texts, numbers below classes: each as often as the others, but for a surplus that is
// removed at random, in random order.
func labelled(n, classes int, random *rand.Rand) []int {
	out := make([]int, 0, n+classes)
	for len(out) < n {
		for c := range classes {
			out = append(out, c)
		}
	}
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:n]
}
