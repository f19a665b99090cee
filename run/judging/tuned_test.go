package judging

import (
	"context"
	"testing"

	"popri/eval/metrics"
	"popri/internal/rng"
	"popri/lora"
	"popri/model/lm"
	"popri/testkit/testworld"
	"popri/trainer"
)

// TestTunedModelTells: adapters that were trained on some clients' rows make these likelier than others of the same
// distribution, and an adapter that was not trained changes nothing.
func TestTunedModelTells(t *testing.T) {
	w, err := testworld.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m, err := lm.Load(w.Generator, lm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	random := rng.New(1, t.Name())
	draw := func(clients int) (list [][]lm.Row) {
		for range clients {
			var rows []lm.Row
			for range 2 {
				ids := make([]int32, 12)
				for i := range ids {
					ids[i] = int32(random.IntN(m.Config.Vocab))
				}
				rows = append(rows, lm.NewRow(ids[:1], ids[1:]))
			}
			list = append(list, rows)
		}
		return list
	}
	members, controls := draw(6), draw(6)
	a, err := lora.New(m, lora.Config{Rank: 16, Alpha: 32}, random)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Free()
	auc := func() float64 {
		score := func(list [][]lm.Row) (out []float64) {
			for _, rows := range list {
				gain, err := gained(m, a, rows)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, gain)
			}
			return out
		}
		return metrics.AUC(score(members), score(controls))
	}
	if got := auc(); got != 0.5 {
		t.Errorf("before the training the AUC is %g, want 1/2", got)
	}
	params, err := a.Trainable()
	if err != nil {
		t.Fatal(err)
	}
	var rows []lm.Row
	for _, r := range members {
		rows = append(rows, r...)
	}
	optimizer := trainer.NewOptimizer(params, trainer.AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, MaxNorm: 1})
	defer optimizer.Free()
	loop := trainer.Loop{Optimizer: optimizer, Updates: 60, Schedule: trainer.Constant(0.01),
		Objective: &trainer.NextToken{Model: m, Adapter: a, Optimizer: optimizer, Rows: trainer.InMemory(rows),
			Parts: trainer.InParts(1)},
		Batches: &trainer.Epochs{Examples: len(rows), Size: len(rows), Order: func(epoch int) []int {
			return rng.New(uint64(epoch), "order").Perm(len(rows))
		}}}
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := auc(); got < 0.9 {
		t.Errorf("after the training the AUC is %g", got)
	}
}
