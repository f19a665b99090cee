package sft_test

import (
	"os"
	"testing"

	"popri/methods/rounds"
	"popri/methods/sft"
	"popri/run"
	"popri/show/series"
	"popri/testkit/testworld"
)

func TestMain(m *testing.M) { os.Exit(testworld.Main(m)) }

// TestRun: rounds train on samples with higher scores than the others, and the more often, the likelier these become.
func TestRun(t *testing.T) {
	w := testworld.Make(t)
	run := func(epochs int) []series.Round {
		c := w.Config
		c.Method, c.Optimizer.Epochs, c.Optimizer.LearningRate = sft.Description.Name, epochs, 1e-2
		dir := t.TempDir()
		s, err := run.Open(t.Context(), run.Options{Config: c, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		rounds, err := rounds.ReadMetrics(dir)
		if err != nil || len(rounds) != c.Trainer.Rounds {
			t.Fatal(err, len(rounds))
		}
		return rounds
	}
	once, often := run(1), run(10)
	for i := range once {
		if v := once[i].Values; !(v["score/chosen"] > v["score/mean"]) || v["chosen"] != 5 { // of 48
			t.Errorf("round %d: %v", i+1, v)
		}
	}
	if a, b := once[0].Values["loss"], often[0].Values["loss"]; !(b < a-0.1) {
		t.Errorf("the mean loss is %g over one epoch and %g over ten", a, b)
	}
}
