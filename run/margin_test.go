package run

import (
	"math"
	"path/filepath"
	"testing"

	"popri/configs"
	"popri/dpo"
	"popri/dpo/preference"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestMarginSchedule: a round's rate is optimizer.learning_rate times the spread of its scores over round 1's, at most
// optimizer.learning_rate; the same after a kill.
func TestMarginSchedule(t *testing.T) {
	for method, spread := range map[string]func(v map[string]float64) float64{
		"popri": func(v map[string]float64) float64 { return v["score/chosen"] - v["score/rejected"] },
		"grpo":  func(v map[string]float64) float64 { return v["reward_std"] },
	} {
		c := testworld.Shared(t).Config
		testworld.AskOnce(&c)
		c.Method, c.Trainer.Rounds, c.Optimizer.Schedule = method, 4, configs.Margin
		dir := t.TempDir()
		mustTrain(t, Options{Config: c, Dir: dir})
		done, err := rounds.ReadMetrics(dir)
		if err != nil {
			t.Fatal(err)
		}
		lower := 0
		for _, r := range done {
			want := c.Optimizer.LearningRate * min(1, spread(r.Values)/spread(done[0].Values))
			if want < c.Optimizer.LearningRate {
				lower++
			}
			for _, s := range testfile.ReadLines[dpo.Metrics](t, filepath.Join(rundir.Round(dir, r.Number), preference.StepsFile)) {
				if math.Abs(s.LearningRate-want) > 1e-12 {
					t.Errorf("%s, round %d: rate %g, want %g", method, r.Number, s.LearningRate, want)
				}
			}
		}
		if lower == 0 {
			t.Errorf("%s: no round had a smaller spread than round 1", method)
		}
		sameInterrupted(t, c, dir, rounds.Stage{Name: "embed", Round: 2}, rounds.Stage{Name: "generate", Round: 4})
	}
}
