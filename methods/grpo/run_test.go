package grpo_test

import (
	"os"
	"path/filepath"
	"testing"

	"popri/configs"
	"popri/dpo/preference"
	"popri/internal/rundir"
	"popri/methods/grpo"
	"popri/methods/rounds"
	"popri/run"
	"popri/show/series"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

func TestMain(m *testing.M) { os.Exit(testworld.Main(m)) }

// train trains with a changed configuration and returns the rounds' figures and all updates.
func train(t *testing.T, change func(c *configs.Config)) (figures []series.Round, steps []grpo.Metrics) {
	t.Helper()
	w := testworld.Make(t)
	c, dir := w.Config, t.TempDir()
	c.Method, c.Optimizer.Batch, c.Optimizer.LearningRate = grpo.Description.Name, 4, 2e-2
	change(&c)
	s, err := run.Open(t.Context(), run.Options{Config: c, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	if figures, err = rounds.ReadMetrics(dir); err != nil || len(figures) != c.Trainer.Rounds {
		t.Fatal(err, len(figures))
	}
	for _, r := range figures {
		path := filepath.Join(rundir.Round(dir, r.Number), preference.StepsFile)
		steps = append(steps, testfile.ReadLines[grpo.Metrics](t, path)...)
	}
	return figures, steps
}

// TestLearns: with the clients asked once, the samples' distance from them falls.
func TestLearns(t *testing.T) {
	rounds, steps := train(t, func(c *configs.Config) {
		c.Scoring.Release, c.Trainer.Rounds, c.Optimizer.LearningRate = "once", 6, 1e-2
		c.Generate.Samples, c.Generate.Prompts, c.Optimizer.Batch = 8, 16, 8
	})
	// The mean reward is the witness's, which the samples' own mean lowers as they come nearer.
	if first, last := rounds[0].Values["distance"], rounds[5].Values["distance"]; !(last < 0.9*first) {
		t.Errorf("the distance went from %g to %g", first, last)
	}
	if len(steps) != 12 || steps[11].Step != 12 || steps[0].Clip != 0 || steps[1].NumTokens <= steps[0].NumTokens {
		t.Errorf("%d updates: %+v", len(steps), steps)
	}
}

// TestReleases: the method works with every way to ask.
func TestReleases(t *testing.T) {
	for _, release := range configs.Choices("scoring.release") {
		rounds, _ := train(t, func(c *configs.Config) {
			if c.Scoring.Release = release; release == "votes" || release == "clipped" {
				c.Scoring.Objective, c.Scoring.Denoise = "similarity", "none"
			}
		})
		for _, r := range rounds {
			if v := r.Values; v["trained_on"] != 48 || !(v["reward_std"] > 0) || v["steps"] != 3 {
				t.Errorf("%s: round %d: %v", release, r.Number, v)
			}
		}
	}
}

// TestSeveralUpdates: a round's updates move the policy away from the one that drew the samples.
func TestSeveralUpdates(t *testing.T) {
	rounds, steps := train(t, func(c *configs.Config) {
		c.Optimizer.Epochs, c.DPO.MicroPairs, c.Optimizer.LearningRate = 4, 2, 5e-2
	})
	for _, r := range rounds {
		if v := r.Values; v["trained_on"] != 48 || v["steps"] != 12 ||
			!(v["clip_ratio/region_mean"] > 0) {
			t.Errorf("round %d: %v", r.Number, v)
		}
	}
	if steps[0].Clip != 0 {
		t.Errorf("the first update, of equal policies: %+v", steps[0])
	}
	// A single update a round needs no log-probabilities of the old policy.
	_, steps = train(t, func(c *configs.Config) { c.Optimizer.Batch = 100 })
	for _, m := range steps {
		if len(steps) != 2 || m.Clip != 0 || m.Epoch != 1 {
			t.Errorf("%d updates: %+v", len(steps), m)
		}
	}
}
