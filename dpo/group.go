package dpo

import (
	"errors"
	"slices"
)

// grouped is a step's pairs in the order in which they are computed, divided into forward passes.
type grouped struct {
	pairs []Pair
	order []int // where each stood in the step
	ends  []int // of each pass
}

func (g grouped) bounds(i int) (from, to int) {
	if i > 0 {
		from = g.ends[i-1]
	}
	return from, g.ends[i]
}

// original converts the indices of a [*NonFinite] into those in the step.
func (g grouped) original(err error) error {
	if n, ok := errors.AsType[*NonFinite](err); ok && !n.original {
		for i, p := range n.Pairs {
			n.Pairs[i] = g.order[p]
		}
		n.original = true
	}
	return err
}

// length is the tokens of a pair's row: the prompt once, and both completions.
func (p Pair) length() int { return len(p.Prompt) + len(p.Chosen) + len(p.Rejected) }

// group divides pairs into passes of at most MicroPairs, times a factor. With a budget of tokens, pairs are first
// ordered by length, so that the rows of a pass need little padding, and a pass also ends before its rows, padded to
// the longest, would exceed the budget. The grouping does not change the weight of a pair in the step, so it changes
// the update only by rounding.
func (t *Tuner) group(pairs []Pair, factor int) grouped {
	g := grouped{pairs: pairs, order: make([]int, len(pairs))}
	for i := range g.order {
		g.order[i] = i
	}
	if t.MicroTokens > 0 {
		slices.SortStableFunc(g.order, func(a, b int) int { return pairs[b].length() - pairs[a].length() })
		g.pairs = make([]Pair, len(pairs))
		for i, from := range g.order {
			g.pairs[i] = pairs[from]
		}
	}
	width := 0
	for i, p := range g.pairs {
		n := i
		if len(g.ends) > 0 {
			n -= g.ends[len(g.ends)-1]
		}
		width = max(width, p.length())
		if n > 0 && (n == factor*t.MicroPairs || t.MicroTokens > 0 && (n+1)*width > factor*t.MicroTokens) {
			g.ends, width = append(g.ends, i), p.length()
		}
	}
	if len(pairs) > 0 {
		g.ends = append(g.ends, len(pairs))
	}
	return g
}

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
