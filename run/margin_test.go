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

// TestMarginSchedule: a round's rate is optimizer.learning_rate times the margin of its pairs' scores over round 1's, at
// most optimizer.learning_rate; the same after a kill.
func TestMarginSchedule(t *testing.T) {
	c := testworld.Shared(t).Config
	testworld.AskOnce(&c)
	c.Trainer.Rounds, c.Optimizer.Schedule = 4, configs.Margin
	dir := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: dir})
	done, err := rounds.ReadMetrics(dir)
	if err != nil {
		t.Fatal(err)
	}
	margin := func(i int) float64 { return done[i].Values["score/chosen"] - done[i].Values["score/rejected"] }
	lower := 0
	for i, r := range done {
		want := c.Optimizer.LearningRate * min(1, margin(i)/margin(0))
		if want < c.Optimizer.LearningRate {
			lower++
		}
		for _, s := range testfile.ReadLines[dpo.Metrics](t, filepath.Join(rundir.Round(dir, r.Number), preference.StepsFile)) {
			if math.Abs(s.LearningRate-want) > 1e-12 {
				t.Errorf("round %d: rate %g, want %g", r.Number, s.LearningRate, want)
			}
		}
	}
	if lower == 0 {
		t.Error("no round had a smaller margin than round 1")
	}
	sameInterrupted(t, c, dir, rounds.Stage{Name: "dpo", Round: 2}, rounds.Stage{Name: "generate", Round: 4})
}
