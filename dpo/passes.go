package dpo

import (
	"slices"

	"popri/internal/numeric"
)

// passes divides pairs into forward passes, each a list of indices of pairs, of at most MicroPairs, times a factor. With
// a budget of tokens, pairs are first ordered by length, so that the rows of a pass need little padding, and a pass
// also ends before its rows, padded to the longest, would exceed the budget. The division does not change the weight of
// a pair in the update, so it changes the update only by rounding.
func (t *Tuner) passes(pairs []Pair, factor int) (list [][]int) {
	order := numeric.Indices(len(pairs))
	if t.MicroTokens > 0 {
		slices.SortStableFunc(order, func(a, b int) int { return pairs[b].length() - pairs[a].length() })
	}
	most, tokens := factor*t.MicroPairs, factor*t.MicroTokens
	var pass []int
	width := 0
	for _, i := range order {
		width = max(width, pairs[i].length())
		if n := len(pass); n > 0 && (n == most || tokens > 0 && (n+1)*width > tokens) {
			list, pass, width = append(list, pass), nil, pairs[i].length()
		}
		pass = append(pass, i)
	}
	if len(pass) > 0 {
		list = append(list, pass)
	}
	return list
}

// length is the tokens of a pair's row: the prompt once, and both completions.
func (p Pair) length() int { return len(p.Prompt) + len(p.Chosen) + len(p.Rejected) }

// meanChosenLen is the tokens of the pairs' chosen completions over the number of pairs.
func meanChosenLen(pairs []Pair) float64 {
	n := 0
	for _, p := range pairs {
		n += len(p.Chosen)
	}
	return float64(n) / float64(len(pairs))
}

// countTokens counts as TRL does: each completion with a prompt of its own.
func countTokens(pairs []Pair) (n int64) {
	for _, p := range pairs {
		n += int64(len(p.Prompt) + p.length())
	}
	return n
}
