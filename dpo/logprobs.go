package dpo

import (
	"context"
	"slices"

	"popri/model/lm"
	"popri/model/tensor"
	"popri/trainer"
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

// rowNumbers numbers the rows of pairs, which have the given indices in an update: two numbers a pair, of which a pair in
// one row uses the first.
func rowNumbers(pairs []Pair, indices []int, context int) (numbers []int) {
	for i, p := range pairs {
		numbers = append(numbers, 2*indices[i])
		if p.length() > context {
			numbers = append(numbers, 2*indices[i]+1)
		}
	}
	return numbers
}

// tokenWeights returns how much each scored token counts in its completion's log-probability. row is the sequence of
// each token, numbered as by [scoredRows], whose tokens follow each other. All count 1, or, beyond the length of the
// shorter completion of the pair, alpha (LD-DPO, Liu et al. 2024, arXiv 2409.06411: the longer completion's excess is
// mostly verbosity).
func tokenWeights(row []int, pairs []Pair, alpha float64) []float64 {
	weights := make([]float64, len(row))
	seen := make([]int, 2*len(pairs))
	for i, r := range row {
		p := pairs[r/2]
		weights[i] = 1
		if seen[r] >= min(len(p.Chosen), len(p.Rejected)) {
			weights[i] = alpha
		}
		seen[r]++
	}
	return weights
}

// sums returns the weighted sum of the log-probabilities of pair i's chosen completion at 2i and of its rejected one at
// 2i+1. Equal completions get equal sums; computed in one row, they would differ by rounding.
func sums(sc *lm.Scored, pairs []Pair, weights []float64) []float64 {
	out := make([]float64, 2*len(pairs))
	for i, lp := range sc.LogProbs {
		out[sc.Row[i]] += weights[i] * float64(lp)
	}
	for i, p := range pairs {
		if slices.Equal(p.Chosen, p.Rejected) {
			out[2*i+1] = out[2*i]
		}
	}
	return out
}

// Reference fills in the log-probabilities under the model with its adapters off.
func (t *Tuner) Reference(ctx context.Context, pairs []Pair) error {
	return t.reference(ctx, pairs, nil)
}

func (t *Tuner) reference(ctx context.Context, pairs []Pair, adapter lm.Adapter) error {
	return t.logProbs(ctx, pairs, always(adapter), func(i int, x logProb) {
		pairs[i].Reference, pairs[i].HasReference = [2]float64{x.chosen, x.rejected}, true
	})
}

// logProb is a pair's summed log-probabilities, and its weight if [Options.Weighting] asks for it.
type logProb struct{ chosen, rejected, weight float64 }

// example is the pair as a loss sees it.
func (p Pair) example(x logProb, meanChosenLen float64) Example {
	return Example{x.chosen, x.rejected, p.Reference[0], p.Reference[1], len(p.Chosen), len(p.Rejected), meanChosenLen}
}

// always gives all passes the same adapter.
func always(a lm.Adapter) func([]Pair, []int) lm.Adapter {
	return func([]Pair, []int) lm.Adapter { return a }
}

// logProbs calls each, from several goroutines, with the summed log-probabilities of every pair, in nats. adapter gives
// that of a pass.
func (t *Tuner) logProbs(ctx context.Context, pairs []Pair, adapter func(pairs []Pair, indices []int) lm.Adapter,
	each func(i int, x logProb)) error {
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
		batch := trainer.Select(pairs, passes[i])
		sc := t.Model.Score(s, scoredRows(batch, t.Model.Config.Context), adapter(batch, passes[i]), false)
		lp := sums(sc, batch, tokenWeights(sc.Row, batch, 1-t.LengthDiscount))
		weights := t.weights(s, sc, batch)
		for k := range batch {
			each(passes[i][k], logProb{lp[2*k], lp[2*k+1], weights[k]})
		}
		return nil
	})
}
