package judging

import (
	"path/filepath"
	"testing"

	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/eval/judge"
	"popri/eval/metrics"
	"popri/internal/rng"
	"popri/internal/rundir"
	"popri/lora"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/testkit/testmodel"
	"popri/testkit/testworld"
	"popri/trainer"
)

// TestTunedModelTells: adapters that were trained on some clients' rows make these likelier than others of the same
// distribution, and an adapter that was not trained changes nothing.
func TestTunedModelTells(t *testing.T) {
	w := testworld.Make(t)
	m := testmodel.Load(t, w.Generator, lm.Options{})
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
	learn(t, m, a, params, rows, 0.01)
	if got := auc(); got < 0.9 {
		t.Errorf("after the training the AUC is %g", got)
	}
}

// learn trains the parameters of a model, or of its adapter, on rows, many times over.
func learn(t *testing.T, m *lm.Model, a lm.Adapter, params []tensor.Tensor, rows []lm.Row, rate float64) {
	t.Helper()
	optimizer := trainer.NewOptimizer(params, trainer.AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, MaxNorm: 1})
	defer optimizer.Free()
	loop := trainer.Loop{Optimizer: optimizer, Updates: 60, Schedule: trainer.Constant(rate),
		Objective: &trainer.NextToken{Model: m, Adapter: a, Optimizer: optimizer, Rows: trainer.InMemory(rows),
			Parts: trainer.InParts(1)},
		Batches: &trainer.Epochs{Examples: len(rows), Size: len(rows), Order: func(epoch int) []int {
			return rng.New(uint64(epoch), "order").Perm(len(rows))
		}}}
	if err := loop.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSmallModelTells: a small model that was trained on some clients' texts is recognised by them, and one that is its
// own start by nobody.
func TestSmallModelTells(t *testing.T) {
	w := testworld.Make(t)
	c, dir := w.Config, t.TempDir()
	if none, err := small(c, dir); none != nil || err != nil {
		t.Errorf("a run without a small model: %v, %v", none, err)
	}
	population, err := clients.Read(w.Private)
	if err != nil {
		t.Fatal(err)
	}
	of := func(split clients.Split) (list []judge.Client) {
		for _, x := range population.Split(split)[:5] {
			list = append(list, judge.Client{ID: x.ID, Texts: x.Texts[:attackedFor]})
		}
		return list
	}
	in := judge.Input{Members: of(clients.Train), Controls: of(clients.Test)}
	m := testmodel.Load(t, w.Device, lm.Options{})
	defer m.Free()
	auc := func() float64 {
		t.Helper()
		if err := m.SaveLike(w.Device, filepath.Join(dir, rundir.Small), safetensors.F32); err != nil {
			t.Fatal(err)
		}
		list, err := guesses(t.Context(), c, dir, in)
		if err != nil || len(list) != 1 || list[0].Name != SmallModel {
			t.Fatalf("%+v, %v", list, err)
		}
		return metrics.AUC(list[0].Members, list[0].Controls)
	}
	if got := auc(); got != 0.5 {
		t.Errorf("before the training the AUC is %g, want 1/2", got)
	}
	encoder, err := downstream.OpenEncoder(w.Device, c.Downstream.Training().Rows, c.Downstream.Length)
	if err != nil {
		t.Fatal(err)
	}
	params, err := m.Trainable()
	if err != nil {
		t.Fatal(err)
	}
	var rows []lm.Row
	for _, x := range in.Members {
		rows = append(rows, encoder.Encode(x.Texts)...)
	}
	learn(t, m, nil, params, rows, 0.003)
	if got := auc(); got < 0.9 {
		t.Errorf("after the training the AUC is %g", got)
	}
}
