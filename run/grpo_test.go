package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"popri/configs"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/rounds"
	"popri/run/reporting"
	"popri/show/series"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// allOfGRPO uses what a checkpoint of the method can hold.
func allOfGRPO(c *configs.Config) {
	c.Method = "grpo"
	c.Optimizer.Epochs, c.DPO.MicroPairs, c.Optimizer.LearningRate = 2, 2, 1e-2
}

// TestGRPOInterrupted: a run that is interrupted after every second update ends with the bytes of one that was not.
func TestGRPOInterrupted(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	allOfGRPO(&c)
	want, dir := t.TempDir(), t.TempDir()
	mustTrain(t, Options{Config: c, Dir: want})
	done := 0
	times := interrupted(t, Options{Config: c, Dir: dir}, func(stop func()) rounds.Events {
		return rounds.Events{Log: func(event string, _ int, _ any) {
			if event == "grpo_step" {
				if done++; done%2 == 0 {
					stop()
				}
			}
		}}
	})
	if updates := 2 * 3 * c.Trainer.Rounds; done != updates || times < 4 {
		t.Errorf("%d updates, %d interruptions; without repetition there are %d", done, times, updates)
	}
	sameRun(t, dir, want)
}

// TestForeignCheckpoint: the state of a training on other samples is refused with its name.
func TestForeignCheckpoint(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	allOfGRPO(&c)
	stop := func(dir string, c configs.Config) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := Options{Config: c, Dir: dir, Events: rounds.Events{Log: func(event string, _ int, _ any) {
			if event == "grpo_step" {
				cancel()
			}
		}}}
		if err := train(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	dir, other := t.TempDir(), t.TempDir()
	stop(dir, c)
	c.Generate.Samples = 5
	stop(other, c)
	name := filepath.Join("rounds", "0001", "training.safetensors")
	b := testfile.Read(t, filepath.Join(other, name))
	testfile.Write(t, filepath.Join(dir, name), b)
	if err := train(t.Context(), Options{Dir: dir, Resume: true}); err == nil || !strings.Contains(err.Error(), name) ||
		!strings.Contains(err.Error(), "other samples") {
		t.Errorf("the error is %v", err)
	}
}

// A rung judges the adapters of its own round, whatever trainer.select would choose.
func TestRungJudgesItsRound(t *testing.T) {
	c := testworld.Shared(t).Config
	testworld.AskOnce(&c)
	c.Trainer.Select, c.Trainer.Rounds = "distance", 3
	wrote := ""
	s, err := Open(t.Context(), Options{Config: c, Dir: t.TempDir(), Events: rounds.Events{StageBegin: func(s rounds.Stage) {
		if strings.HasPrefix(s.Name, "synthesize") {
			wrote = s.Name
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.Climb(t.Context(), 1); err != nil || r.Rounds != 1 || wrote != "synthesize after round 1" {
		t.Errorf("%+v (%v): the stage was %q", r, err, wrote)
	}
}

// TestSelectByDistance: the synthetic set is written by the adapters whose samples were nearest, whichever these are, and a
// run that is interrupted while it measures or writes chooses the same.
func TestSelectByDistance(t *testing.T) {
	w := testworld.Shared(t)
	chosen := map[int]bool{}
	for _, change := range []func(c *configs.Config){
		func(c *configs.Config) {
			c.Method, c.Optimizer.LearningRate, c.Trainer.Rounds = "grpo", 1e-2, 3
		},
		func(c *configs.Config) { c.Optimizer.LearningRate = 0.3 }, // ruins the adapters
		func(c *configs.Config) {
			c.Method, c.Optimizer.LearningRate = "private_evolution_sft", 0.5
		},
	} {
		c := w.Config
		testworld.AskOnce(&c)
		c.Trainer.Select = "distance"
		change(&c)
		want, dir := t.TempDir(), t.TempDir()
		var logged []rounds.Selection
		o := Options{Config: c, Dir: want, Events: rounds.Events{Log: func(event string, _ int, v any) {
			if s, ok := v.(rounds.Selection); ok && event == "selected" {
				logged = append(logged, s)
			}
		}}}
		mustTrain(t, o)
		figures, err := rounds.ReadMetrics(want)
		if err != nil {
			t.Fatal(err)
		}
		// least is computed here again: the distance before each round, and after the last one.
		least, at := figures[0].Values["distance"], 0
		for i, r := range figures {
			after := r.Get(rounds.Distance + rounds.After)
			if (after != nil) != (i == len(figures)-1) {
				t.Fatalf("round %d: %v", i+1, r.Values)
			}
			if i+1 < len(figures) {
				after = figures[i+1].Get("distance")
			}
			if *after < least {
				least, at = *after, i+1
			}
		}
		chosen[at] = true
		if len(logged) != 1 || logged[0] != (rounds.Selection{Round: at, By: rounds.Distance, Value: least}) {
			t.Errorf("%s: selected %+v, the least distance is %g after round %d", c.Method, logged, least, at)
		}
		product := samplesIn(t, filepath.Join(want, rundir.Synthetic))
		if len(product) != 30+c.Synthetic.Texts {
			t.Fatalf("%d texts", len(product))
		}
		for _, row := range product[30:] {
			if row.Model != fmt.Sprintf("after round %d", at) {
				t.Fatalf("%s: a text was written %s, not after round %d", c.Method, row.Model, at)
			}
		}
		adapter := func(dir string) []byte {
			return testfile.Read(t, filepath.Join(dir, rundir.Adapter, "adapter_model.safetensors"))
		}
		for _, r := range figures {
			if same := bytes.Equal(adapter(want), adapter(rundir.Round(want, r.Number))); same != (r.Number == at) {
				t.Errorf("%s: the run's adapter is the one of round %d: %v", c.Method, r.Number, same)
			}
		}
		page, err := reporting.Of(want)
		if err != nil || !strings.Contains(strings.Join(page.Notes, " "), "trainer.select=distance") {
			t.Errorf("the report's notes: %q (%v)", page.Notes, err)
		}
		for _, r := range page.Rounds {
			if r.Selected != (r.Figures.Number == at) {
				t.Errorf("the report shows round %d as selected: %v", r.Figures.Number, r.Selected)
			}
		}
		for _, stage := range []string{"measure", "synthesize"} {
			ctx, cancel := context.WithCancel(t.Context())
			o := Options{Config: c, Dir: dir, Resume: rundir.Exists(dir),
				Events: rounds.Events{StageBegin: func(s rounds.Stage) {
					if strings.HasPrefix(s.Name, stage) {
						cancel()
					}
				}}}
			if err := train(ctx, o); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: %v", stage, err)
			}
			cancel()
		}
		mustTrain(t, Options{Dir: dir, Resume: true})
		sameRun(t, dir, want)
	}
	if len(chosen) < 2 || !chosen[0] {
		t.Errorf("the cases chose the states after rounds %v, want the beginning and others", chosen)
	}
}

// TestSelectByFID: the synthetic set is written by the adapters whose samples are nearest to the validation clients'
// texts, in runs that release in each round, and a run that was interrupted chooses the same.
func TestSelectByFID(t *testing.T) {
	w := testworld.Shared(t)
	for _, rate := range []float64{1e-3, 0.3} { // the second ruins the adapters
		c := w.Config
		c.Trainer.Select, c.Optimizer.LearningRate = rounds.FID, rate
		want, dir := t.TempDir(), t.TempDir()
		mustTrain(t, Options{Config: c, Dir: want})
		figures, err := rounds.ReadMetrics(want)
		if err != nil {
			t.Fatal(err)
		}
		var values []float64 // of the states after rounds 0, 1, …
		for _, r := range figures {
			values = append(values, r.Values["fid"])
		}
		last := figures[len(figures)-1]
		values = append(values, last.Values["fid_after"])
		at := 0
		for i, v := range values {
			if !(v > 0) {
				t.Fatalf("%v: %v", rate, values)
			}
			if v < values[at] {
				at = i
			}
		}
		if rate == 0.3 && at == len(values)-1 {
			t.Errorf("the end of a training that ruins the adapters is chosen: %v", values)
		}
		product := samplesIn(t, filepath.Join(want, rundir.Synthetic))
		if len(product) != c.Synthetic.Texts || product[0].Model != fmt.Sprintf("after round %d", at) {
			t.Errorf("%d texts, the first one %s; distances %v", len(product), product[0].Model, values)
		}
		page, err := reporting.Of(want)
		if notes := strings.Join(page.Notes, " "); err != nil || !strings.Contains(notes, "trainer.select=fid") ||
			!strings.Contains(notes, "validation clients are not protected") {
			t.Errorf("the report's notes: %q (%v)", page.Notes, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = train(ctx, Options{Config: c, Dir: dir, Events: rounds.Events{StageBegin: func(s rounds.Stage) {
			if strings.HasPrefix(s.Name, "measure") {
				cancel()
			}
		}}})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		mustTrain(t, Options{Dir: dir, Resume: true})
		sameRun(t, dir, want)
	}
}

// TestEveryMethodThatTunesMeasures: what the configuration takes for methods that can be selected by distance are those
// whose rounds have one.
func TestEveryMethodThatTunesMeasures(t *testing.T) {
	for _, d := range methods.All {
		c := configs.Default()
		c.Method, c.Trainer.Select, c.Generate.ByLabel = d.Name, "distance", d.Needs(c).Labels
		if d.Follows {
			c.Privacy.Continues = "earlier"
		}
		shows := false
		for _, s := range d.Series.Columns {
			shows = shows || s.Key == rounds.Distance && d.Work != nil && d.Product == methods.All[0].Product
		}
		if err := c.Validate(); err != nil || (c.SelectsBy() == "distance") != shows {
			t.Errorf("%s: selects by %q, %v", d.Name, c.SelectsBy(), err)
		}
	}
	var r series.Round
	if err := json.Unmarshal([]byte(`{"round": 1}`), &r); err != nil {
		t.Fatal(err)
	}
	if _, ok := rounds.Best([]series.Round{r}, rounds.Distance); ok {
		t.Error("a round without a distance is the nearest")
	}
}
