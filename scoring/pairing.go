package scoring

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Pairing chooses which of a prompt's ranked samples become preference pairs.
type Pairing interface {
	// Pair returns the indices of chosen and rejected in ranked, a prompt's scores in descending order; none leaves the
	// prompt out. It is called once for each prompt, in their order.
	Pair(ranked []float64) [][2]int
	// Check returns an error if perPrompt samples cannot give a pair.
	Check(perPrompt int) error
}

// AgainstRank pairs the best sample with the one of this rank, from 2 (POPri, section 3.1). A prompt with fewer
// different samples gives no pair.
type AgainstRank int

// Pair implements [Pairing].
func (l AgainstRank) Pair(ranked []float64) [][2]int {
	if len(ranked) < int(l) {
		return nil
	}
	return [][2]int{{0, int(l) - 1}}
}

// Check implements [Pairing].
func (l AgainstRank) Check(perPrompt int) error {
	if l < 2 || int(l) > perPrompt {
		return fmt.Errorf("scoring: rejected rank %d, want 2 to the %d samples of a prompt", l, perPrompt)
	}
	return nil
}

// AgainstAll pairs the best sample with each other one.
type AgainstAll struct{}

// Pair implements [Pairing].
func (AgainstAll) Pair(ranked []float64) (pairs [][2]int) {
	for i := 1; i < len(ranked); i++ {
		pairs = append(pairs, [2]int{0, i})
	}
	return pairs
}

// Check implements [Pairing].
func (AgainstAll) Check(int) error { return nil }

// AgainstWorst pairs the best sample with the last.
type AgainstWorst struct{}

// Pair implements [Pairing].
func (AgainstWorst) Pair(ranked []float64) [][2]int {
	if len(ranked) < 2 {
		return nil
	}
	return [][2]int{{0, len(ranked) - 1}}
}

// Check implements [Pairing].
func (AgainstWorst) Check(int) error { return nil }

// AgainstRandom pairs the best sample with one of the others, each with the same probability.
type AgainstRandom struct{ Random *rand.Rand }

// Pair implements [Pairing].
func (r AgainstRandom) Pair(ranked []float64) [][2]int {
	if len(ranked) < 2 {
		return nil
	}
	return [][2]int{{0, 1 + r.Random.IntN(len(ranked)-1)}}
}

// Check implements [Pairing].
func (r AgainstRandom) Check(int) error {
	if r.Random == nil {
		return fmt.Errorf("scoring: pairs at random need a source of random numbers")
	}
	return nil
}

// WithMargin keeps the pairs of another pairing whose scores are at least Least apart.
type WithMargin struct {
	Pairing
	Least float64
}

// Pair implements [Pairing].
func (m WithMargin) Pair(ranked []float64) (pairs [][2]int) {
	for _, p := range m.Pairing.Pair(ranked) {
		if ranked[p[0]]-ranked[p[1]] >= m.Least {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// Check implements [Pairing].
func (m WithMargin) Check(perPrompt int) error {
	if !(m.Least >= 0) {
		return fmt.Errorf("scoring: a margin of %g between the scores of a pair, want 0 or more", m.Least)
	}
	return m.Pairing.Check(perPrompt)
}

// Spread returns the standard deviation of scores around the mean of their prompt, perPrompt successive entries, over
// all prompts. In this unit a margin has the same meaning for any scale of the scores.
func Spread(scores []float64, perPrompt int) float64 {
	if perPrompt < 1 || len(scores) < perPrompt {
		return 0
	}
	sum, n := 0.0, 0
	for ; len(scores) >= perPrompt; scores = scores[perPrompt:] {
		mean := 0.0
		for _, s := range scores[:perPrompt] {
			mean += s / float64(perPrompt)
		}
		for _, s := range scores[:perPrompt] {
			sum += (s - mean) * (s - mean)
			n++
		}
	}
	return math.Sqrt(sum / float64(n))
}
