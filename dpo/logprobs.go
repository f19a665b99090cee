package dpo

import (
	"context"
	"slices"

	"popri/internal/numeric"
	"popri/model/lm"
	"popri/model/tensor"
)

// scoredRows makes rows for scoring: the prompt once, then the chosen and the rejected completion, which do not see
// each other. The prompt's tokens are not scored. Sequence 2i is pair i with its chosen completion, 2i+1 with its
// rejected one. A pair that is too long for one row of context tokens takes two rows.
func scoredRows(pairs []Pair, context int) []lm.Row {
	out := make([]lm.Row, 0, len(pairs))
	for _, p := range pairs {
		if p.length() <= context {
			out = append(out, lm.NewRow(p.Prompt, p.Chosen, p.Rejected))
		} else {
			out = append(out, lm.NewRow(p.Prompt, p.Chosen), lm.NewRow(p.Prompt, p.Rejected))
		}
	}
	return out
}

// sums returns the sums of the log-probabilities of each pair's chosen completion and of its rejected one. Equal
// completions get equal sums; computed in one row, they would differ by rounding.
func sums(sc *lm.Scored, pairs []Pair) [][2]float64 {
	out := make([][2]float64, len(pairs))
	for i, lp := range sc.LogProbs {
		out[sc.Row[i]/2][sc.Row[i]%2] += float64(lp)
	}
	for i, p := range pairs {
		if slices.Equal(p.Chosen, p.Rejected) {
			out[i][1] = out[i][0]
		}
	}
	return out
}

// Reference fills in the log-probabilities under the model with its adapters off.
func (t *Tuner) Reference(ctx context.Context, pairs []Pair) error {
	return t.logProbs(ctx, pairs, nil, func(i int, x [2]float64) { pairs[i].Reference, pairs[i].HasReference = x, true })
}

// example is the pair as a loss sees it, with the log-probabilities of its chosen and its rejected completion.
func (p Pair) example(logProbs [2]float64, of means) Example {
	e := Example{logProbs[0], logProbs[1], p.Reference[0], p.Reference[1], len(p.Chosen), len(p.Rejected),
		of.chosenLen, 1, p.RejectedRank}
	if of.margin > 0 {
		e.Margin = (p.ChosenScore - p.RejectedScore) / of.margin
	}
	return e
}

// logProbs calls each, from several goroutines, with the summed log-probabilities of every pair's chosen and rejected
// completion, in nats.
func (t *Tuner) logProbs(ctx context.Context, pairs []Pair, adapter lm.Adapter, each func(i int, x [2]float64)) error {
	if err := t.Check(pairs); err != nil {
		return err
	}
	if err := t.Model.Freeze(); err != nil {
		return err
	}
	passes := t.passes(pairs, 2) // no activations are kept
	return tensor.Parallel(len(passes), func(i int, s *tensor.Scope) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := numeric.Pick(pairs, passes[i])
		sc := t.Model.Score(s, scoredRows(batch, t.Model.Config.Context), adapter, false)
		for k, lp := range sums(sc, batch) {
			each(passes[i][k], lp)
		}
		return nil
	})
}
