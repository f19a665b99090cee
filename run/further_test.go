package run

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"popri/configs"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/run/assembly"
	"popri/run/evaluator"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestAcceptedChangesAreMadeAgain: what follows the rounds is written again for more rounds and for other settings, and
// what another small model changes is the evaluation alone.
func TestAcceptedChangesAreMadeAgain(t *testing.T) {
	c := testworld.Shared(t).Config
	testworld.AskOnce(&c)
	c.Trainer.Rounds, c.Synthetic.Texts, c.Synthetic.PublicTexts, c.Synthetic.Kept = 1, 20, 10, 0.5
	c.Downstream.Steps, c.Downstream.EvalEvery = 4, 2
	dir := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: dir})
	config := filepath.Join(dir, rundir.Config)
	set := filepath.Join(dir, rundir.Synthetic)
	for _, change := range []struct {
		key, old, new string
		texts         bool
	}{{"rounds", "1", "2", true}, {"texts", "20", "30", true}, {"steps", "4", "6", false}} {
		s := mustOpen(t, Options{Dir: dir, Resume: true})
		_, err := s.Evaluate(t.Context(), evaluator.Options{})
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
		before := testfile.Read(t, set)
		testfile.Replace(t, config, "  "+change.key+": "+change.old+"\n", "  "+change.key+": "+change.new+"\n")
		mustTrain(t, Options{Dir: dir, Resume: true, AcceptChanges: true})
		if rundir.Has(dir, rundir.Eval) || bytes.Equal(before, testfile.Read(t, set)) == change.texts {
			t.Errorf("%s: the set is other: %v; the evaluation is there: %v", change.key, !change.texts, rundir.Has(dir, rundir.Eval))
		}
	}
	if rows := samplesIn(t, set); len(rows) != 40 || rows[len(rows)-1].Model != "after round 2" {
		t.Errorf("%d texts, the last one written %s", len(rows), rows[len(rows)-1].Model)
	}
}

// TestStartsAreCounted: what a run made of its clients' texts is no model and no public text of another run on them, or of
// its evaluation, without the charges of the first. A run whose predecessor is gone continues.
func TestStartsAreCounted(t *testing.T) {
	c := testworld.Shared(t).Config
	testworld.AskOnce(&c)
	c.Trainer.Rounds, c.Synthetic.Texts, c.Downstream.Steps, c.Downstream.EvalEvery = 1, 20, 4, 2
	dir := trained(t, c)
	small, want := filepath.Join(dir, rundir.Small), "privacy.continues="+dir
	testfile.Copy(t, small, c.Downstream.Model) // any model
	for name, set := range map[string]func(c *configs.Config){
		"data.public": func(c *configs.Config) { c.Data.Public = filepath.Join(dir, rundir.Synthetic) },
		"model.path":  func(c *configs.Config) { c.Model.Path = small },
	} {
		c := c
		set(&c)
		if _, err := Open(t.Context(), Options{Config: c, Dir: filepath.Join(t.TempDir(), "run")}); !fault.IsUser(err) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Seed++ // another release
	other, _ := trainedSession(t, c)
	if _, err := other.Evaluate(t.Context(), evaluator.Options{By: []string{"downstream.model=" + small}}); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("evaluated: %v", err)
	}
	if _, err := other.Evaluate(t.Context(), evaluator.Options{By: []string{"downstream.task=classification"}}); !fault.IsUser(err) {
		t.Errorf("without labels: %v", err)
	}
	c.Data.Public, c.Privacy.Continues, c.Privacy.Epsilon = filepath.Join(dir, rundir.Synthetic), dir, 2*c.Privacy.Epsilon
	next := trained(t, c)
	c.Privacy.Continues = dir + "-gone"
	population, err := assembly.LoadPrivate(c)
	if err != nil {
		t.Fatal(err)
	}
	budget, err := assembly.Budget(c, population)
	if err != nil {
		t.Fatal(err)
	}
	l, err := assembly.OpenLedger(c, next, budget)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
