package dpo

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"popri/lm"
)

// What a training needs that another program does between two calls: where the tuner stands, and what was done since.

// Steps is the number of updates so far, over all rounds.
func (t *Tuner) Steps() int { return t.done.Steps }

// Upcoming returns the learning rates of the next n updates.
func (t *Tuner) Upcoming(n int) []float64 {
	rates := make([]float64, n)
	for i := range rates {
		rates[i] = t.Schedule.At(t.done.Position + i)
	}
	return rates
}

// StateKey hashes the adapter as it is.
func (t *Tuner) StateKey() string {
	h := sha256.New()
	for _, p := range t.opt.State().Params {
		hashFloats(h, p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Advance notes updates that another program did: their numbers and tokens, counted from its beginning, follow those of
// the tuner, and so does the schedule. It returns the metrics with the tuner's numbers.
func (t *Tuner) Advance(steps []Metrics) []Metrics {
	out := slices.Clone(steps)
	for i := range out {
		out[i].Step = t.done.Steps + i + 1
		out[i].NumTokens += t.done.Tokens
	}
	if n := len(out); n > 0 {
		t.done = lm.Counters{Steps: out[n-1].Step, Position: t.done.Position + n, Tokens: out[n-1].NumTokens}
	}
	return out
}
