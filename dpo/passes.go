package dpo

import (
	"slices"

	"popri/internal/numeric"
)

// passes divides pairs into forward passes, each a list of indices of pairs, of at most MicroPairs, times a factor. The
// division does not change the weight of a pair in the update, so it changes the update only by rounding.
func (t *Tuner) passes(pairs []Pair, factor int) [][]int {
	return slices.Collect(slices.Chunk(numeric.Indices(len(pairs)), factor*t.MicroPairs))
}

// length is the tokens of a pair's row: the prompt once, and both completions.
func (p Pair) length() int { return len(p.Prompt) + len(p.Chosen) + len(p.Rejected) }

// means are of the pairs of an update: the tokens of a chosen completion, and the difference of a pair's scores.
type means struct{ chosenLen, margin float64 }

func meansOf(pairs []Pair) (m means) {
	for _, p := range pairs {
		m.chosenLen += float64(len(p.Chosen)) / float64(len(pairs))
		m.margin += (p.ChosenScore - p.RejectedScore) / float64(len(pairs))
	}
	return m
}

// countTokens counts as TRL does: each completion with a prompt of its own.
func countTokens(pairs []Pair) int64 {
	return numeric.Sum(pairs, func(p Pair) int64 { return int64(len(p.Prompt) + p.length()) })
}
