package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/accountant/guarantee"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/run"
	"popri/run/auditing"
	"popri/show/series"
	"popri/study/cost"
	"popri/study/grid"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// An adaptive ablation continues after an interruption at any stage as if there had been none. Dropped runs have the
// noise of the full plan, have made the first releases of it, which count, and were not measured on test clients.
func TestHalving(t *testing.T) {
	for _, releases := range []int{2, 1} {
		t.Run(fmt.Sprintf("%d releases", releases), func(t *testing.T) { testHalving(t, releases) })
	}
}

func testHalving(t *testing.T, releases int) {
	w, axes, _ := smallGrid(t, 1, "0.05", "0.1", "0.2")
	if releases == 1 {
		testworld.AskOnce(&w.Config) // the synthetic set has public texts, and the model's part is a file of a round
		w.Config.Trainer.Select = "distance"
		axes = []grid.Axis{{Key: "synthetic.temperature", Values: []string{"0.5", "0.9", "1.3"}}}
	}
	w.Config.Trainer.Rounds = 2
	cells, err := grid.All(w.Config, axes, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	o := Options{Dir: "grid", Halving: &cost.Halving{Eta: 2, MinRounds: 1}}
	want, err := Ablate(t.Context(), axes, cells, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(want.Rows) != 1 || len(want.Dropped) != 2 || want.Adaptive == nil || len(want.Adaptive.Rungs) != 1 ||
		!want.Adaptive.Fixed {
		t.Fatalf("%+v", want)
	}
	rung := want.Adaptive.Rungs[0]
	if rung.Rounds != 1 || len(rung.Settings) != 3 || !rung.Settings[0].WentOn || rung.Settings[1].WentOn ||
		!slices.Equal(rung.Settings[0].Values, want.Rows[0].Values) ||
		rung.Settings[0].Accuracy.Mean < rung.Settings[1].Accuracy.Mean {
		t.Errorf("%+v", rung)
	}
	_, full := testworld.Charges(t, want.Rows[0].Runs[0])
	for _, d := range want.Dropped {
		dir := filepath.Join("grid", d.Name)
		_, entries := testworld.Charges(t, dir)
		if len(entries) != 1 || entries[0].Sigma != full[0].Sigma || len(full) != releases || d.Rounds != 1 {
			t.Errorf("%s: charges %+v, the whole run has %+v", d.Name, entries, full)
		}
		if rundir.Has(dir, rundir.Eval) || rundir.Has(dir, rundir.Synthetic) || rundir.Has(dir, rundir.Rung) ||
			!rundir.Has(dir, rundir.Report) {
			t.Errorf("%s was finished, or has no report", d.Name)
		}
		facts, err := guarantee.Read(dir)
		if words := strings.Join(facts.Warnings(), " "); err != nil ||
			!strings.Contains(words, "an adaptive ablation decided") {
			t.Errorf("%s does not say that validation clients ended it: %s (%v)", d.Name, words, err)
		}
	}
	// Seeded noise makes the same first release of all runs, which counts once.
	if len(want.Composed) != 1 || len(want.Composed[0].Ledgers) != 3 || want.Composed[0].Charges != releases {
		t.Errorf("composed %+v", want.Composed)
	}
	planned := releases + 1 + 1 // of a run, and two first ones
	if releases == 1 {
		planned = 1 // which serves all runs
	}
	if p := want.Adaptive.Planned; len(p) != 1 || p[0].Charges != planned {
		t.Errorf("planned %+v, want %d releases", p, planned)
	}
	stored := testworld.Content(t, "grid")
	page := string(stored[rundir.Report])
	for _, words := range []string{"Which settings went on", "dropped after 1 round of 2: place 2 of 3", "</a> dropped",
		"was fixed before the first run"} {
		if !strings.Contains(page, words) {
			t.Errorf("the page lacks %q", words)
		}
	}

	// The winner ends as a run that was never stopped to be judged.
	plain := t.TempDir()
	i := slices.IndexFunc(cells, func(c grid.Cell) bool { return slices.Equal(c.Values, want.Rows[0].Values) })
	s, err := run.Open(t.Context(), run.Options{Config: cells[i].Config, Dir: plain})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Train(t.Context())
	s.Close()
	if err != nil {
		t.Fatal(err)
	}
	winner := testworld.Content(t, want.Rows[0].Runs[0])
	for name, b := range testworld.Content(t, plain) {
		if string(winner[name]) != string(b) {
			t.Errorf("%s differs from that of an uninterrupted run", name)
		}
	}

	for _, stage := range map[int][]string{2: {"generate", "dpo"},
		1: {"synthesize after round 1", "generate"}}[releases] {
		if err := os.RemoveAll("grid"); err != nil {
			t.Fatal(err)
		}
		for at := 1; ; at += 2 { // the first, the third, … time that the stage begins
			ctx, stop := context.WithCancel(t.Context())
			seen := 0
			o.Listen = func([]series.Series) rounds.Events {
				return rounds.Events{StageBegin: func(s rounds.Stage) {
					if s.Name == stage {
						if seen++; seen == at {
							stop()
						}
					}
				}}
			}
			got, err := Ablate(ctx, axes, cells, o)
			stop()
			if err == nil {
				if !reflect.DeepEqual(got.Adaptive, want.Adaptive) || !reflect.DeepEqual(got.Rows, want.Rows) ||
					!reflect.DeepEqual(got.Dropped, want.Dropped) {
					t.Errorf("interrupted at %s: %+v, want %+v", stage, got, want)
				}
				if b, err := os.ReadFile(filepath.Join("grid", File)); err != nil || string(b) != string(stored[File]) {
					t.Errorf("interrupted at %s: ablation.json differs (%v)", stage, err)
				}
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
	}

	// A run that is beyond a rung was not judged there.
	o.Listen = nil
	testfile.Remove(t, filepath.Join(want.Rows[0].Runs[0], rundir.Rungs))
	if _, err := Ablate(t.Context(), axes, cells, o); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), "beyond round 1") {
		t.Errorf("a run beyond the rung: %v", err)
	}
	o.Dir = "other"
	cells[0].Config.Trainer.Rounds = 4
	if _, err := Ablate(t.Context(), axes, cells, o); !fault.IsUser(err) || !strings.Contains(err.Error(), "rounds") {
		t.Errorf("settings of other rounds: %v", err)
	}
}

// TestHalvingSpendsWhatWasPlanned: with noise that no seed repeats, an adaptive ablation that is stopped repeatedly spends
// what its plan said. Dropped runs count, and the audit agrees. Temperatures write other texts, whatever the noise is.
func TestHalvingSpendsWhatWasPlanned(t *testing.T) {
	w, _, _ := smallGrid(t, 1, "0.1")
	axes := []grid.Axis{{Key: "synthetic.temperature", Values: []string{"0.3", "0.8", "1.3"}}}
	w.Config.Trainer.Rounds, w.Config.Privacy.InsecureSeededNoise, w.Config.Downstream.LearningRates = 2, false, []float64{1e-3}
	cells, err := grid.All(w.Config, axes, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: filepath.Join(t.TempDir(), "grid"), Halving: &cost.Halving{Eta: 2, MinRounds: 1}}
	var done *Ablation
	for at := 1; done == nil; at++ {
		ctx, stop := context.WithCancel(t.Context())
		seen := 0
		o.Listen = func([]series.Series) rounds.Events { // the clients have answered, or their answer was read again
			return rounds.Events{StageEnd: func(s rounds.Stage) {
				if s.Name == "collect" {
					if seen++; seen == at {
						stop()
					}
				}
			}}
		}
		done, err = Ablate(ctx, axes, cells, o)
		stop()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err != nil {
			done = nil
		}
	}
	var runs []string
	for _, c := range cells {
		runs = append(runs, filepath.Join(o.Dir, c.Name))
	}
	audited, err := auditing.Runs(runs, auditing.Options{SkipNoise: true})
	if err != nil || audited.Verdict() != nil || len(audited.Composed) != 1 || len(done.Composed) != 1 {
		t.Fatal(err, audited.Verdict(), audited.Composed, done.Composed)
	}
	planned, got, all := done.Adaptive.Planned[0], done.Composed[0], audited.Composed[0]
	if got.Charges != 4 || planned.Charges != 4 || all.Charges != 4 || got.Epsilon != planned.Epsilon ||
		all.Epsilon != planned.Epsilon || len(done.Dropped) != 2 {
		t.Errorf("spent %+v, planned %+v, audited %+v", got, planned, all)
	}
}

// A setting that fails at a rung is neither judged nor run on, and the others are.
func TestHalvingWithFailure(t *testing.T) {
	w, _, _ := smallGrid(t, 1, "0.1")
	w.Config.Trainer.Rounds = 2
	axes, cells, err := grid.OneAtATime(w.Config,
		[]grid.Change{{Keys: []string{"generate.top_p"}, Values: []string{"1e-9"}},
			{Keys: []string{"synthetic.temperature"}, Values: []string{"0.5"}}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Ablate(t.Context(), axes, cells,
		Options{Dir: t.TempDir(), Halving: &cost.Halving{Eta: 2, MinRounds: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Failed) != 2 || len(got.Rows) != 1 || len(got.Rows[0].Runs) != 2 || len(got.Dropped) != 2 ||
		len(got.Adaptive.Rungs[0].Settings) != 2 {
		t.Errorf("%+v", got)
	}
	if len(got.Composed) != 1 || len(got.Composed[0].Ledgers) != 6 {
		t.Errorf("failed or dropped runs do not count: %+v", got.Composed)
	}
}

// Settings that cannot be distinguished are not dropped by chance; those that can be continue as usual.
func TestHalvingOfEquals(t *testing.T) {
	w, axes, _ := smallGrid(t, 1, "0.05", "0.1", "0.2")
	w.Config.Trainer.Rounds, w.Config.Downstream.LearningRates = 2, []float64{1e-30} // nothing is learnt
	cells, err := grid.All(w.Config, axes, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Ablate(t.Context(), axes, cells, Options{Dir: t.TempDir(), Halving: &cost.Halving{Eta: 2, MinRounds: 1}})
	if !fault.IsUser(err) || !strings.Contains(err.Error(), "equally") {
		t.Errorf("all settings are equal: %v", err)
	}
}

// TestRungOutcomes: a setting that a later rung does not judge, because a run of it failed, did not go on to its end.
func TestRungOutcomes(t *testing.T) {
	judged := func(value string) JudgedSetting { return JudgedSetting{Values: []string{value}, WentOn: true} }
	a := &Ablation{Axes: []grid.Axis{{Key: "dpo.beta"}}, Adaptive: &Halved{Rungs: []HalvedRung{
		{Rung: cost.Rung{Rounds: 1}, Settings: []JudgedSetting{judged("1"), judged("2"), judged("3")}},
		{Rung: cost.Rung{Rounds: 2}, Settings: []JudgedSetting{judged("1")}}}},
		Failed:  []FailedRun{{Values: []string{"2"}, Seed: 1}},
		Dropped: []DroppedRun{{Values: []string{"2"}, Seed: 2}, {Values: []string{"3"}, Rounds: 2, Why: "left out after 2 rounds: a run of it failed"}}}
	want := []string{"went on to its end", "a run failed", "left out after 2 rounds: a run of it failed"}
	for i, row := range a.rungs().Rows {
		if row.Outcome != want[i] || row.Went != (i == 0) {
			t.Errorf("%+v, want %q", row, want[i])
		}
	}
}
