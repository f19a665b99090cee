package dpo

import (
	"context"
	"fmt"

	"popri/internal/numeric"
	"popri/trainer"
)

// Evaluation is one measurement during a training, under TRL's names. Figures of held-out pairs are means over them,
// and zero if none are held out.
type Evaluation struct {
	Step            int      `json:"step"` // updates of this training, from 1
	Epoch           float64  `json:"epoch"`
	Pairs           int      `json:"eval_pairs"`
	Loss            float64  `json:"eval_loss"`
	RewardsChosen   float64  `json:"eval_rewards/chosen"`
	RewardsRejected float64  `json:"eval_rewards/rejected"`
	RewardsMargins  float64  `json:"eval_rewards/margins"`
	Accuracy        float64  `json:"eval_rewards/accuracies"`
	LogpsChosen     float64  `json:"eval_logps/chosen"`
	LogpsRejected   float64  `json:"eval_logps/rejected"`
	FID             *float64 `json:"eval_fid,omitempty"` // set if the training is judged by it
	Best            bool     `json:"best,omitempty"`     // no earlier one was as good
}

// Evaluate measures the current adapters on pairs, which must have their reference log-probabilities. Pairs without a
// finite loss give a [*trainer.NonFinite]. A [BatchLoss] takes all of them together.
func (t *Tuner) Evaluate(ctx context.Context, pairs []Pair) (Evaluation, error) {
	lp := make([][2]float64, len(pairs))
	if err := t.logProbs(ctx, pairs, t.Adapter, func(i int, x [2]float64) { lp[i] = x }); err != nil {
		return Evaluation{}, err
	}
	of := meansOf(pairs)
	refused := trainer.NonFinite{What: "pair"}
	examples := make([]Example, len(pairs))
	for i, p := range pairs {
		if !p.HasReference {
			return Evaluation{}, fmt.Errorf("dpo: held-out pair %d has no reference log-probabilities", i)
		}
		examples[i] = p.example(lp[i], of)
	}
	losses := make([]float64, len(pairs))
	for i, v := range evalAll(t.Loss, examples) {
		e := examples[i]
		losses[i] = v.Loss
		if !numeric.Finite(losses[i]) || !numeric.Finite(e.chosen()) || !numeric.Finite(e.rejected()) {
			refused.Add(i, e.describe(losses[i]))
		}
	}
	if len(refused.Examples) > 0 {
		return Evaluation{}, fmt.Errorf("dpo: held-out pairs: %w", &refused)
	}
	var m Metrics
	n := float64(len(examples))
	for i, e := range examples {
		m.add(losses[i]/n, e, t.Beta, n)
	}
	return Evaluation{Pairs: len(examples), Loss: m.Loss, RewardsChosen: m.RewardsChosen, RewardsRejected: m.RewardsRejected,
		RewardsMargins: m.RewardsMargins, Accuracy: m.Accuracy, LogpsChosen: m.LogpsChosen, LogpsRejected: m.LogpsRejected}, nil
}

// HoldOut separates the pairs of about the given fraction of the prompts, and of at least one prompt where there are two.
// perm draws a permutation of the prompts. All pairs of a prompt go to the same side, because training on some of them
// changes the loss of the others.
func HoldOut(pairs []Pair, fraction float64, perm func(n int) []int) (train, held []Pair) {
	if fraction <= 0 {
		return pairs, nil
	}
	number := map[string]int{}
	of := make([]int, len(pairs))
	for i, p := range pairs {
		key := fmt.Sprint(p.Prompt)
		if _, ok := number[key]; !ok {
			number[key] = len(number)
		}
		of[i] = number[key]
	}
	n := min(max(1, int(fraction*float64(len(number))+0.5)), len(number)-1)
	out := numeric.Set(perm(len(number))[:max(0, n)])
	for i, p := range pairs {
		if out[of[i]] {
			held = append(held, p)
		} else {
			train = append(train, p)
		}
	}
	return train, held
}
