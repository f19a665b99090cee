package run

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/accountant/guarantee"
	"popri/datasets/clients"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/target"
	"popri/run/evaluation"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/testkit/testworld"
)

// TestValidatedMix: the synthetic set is the set that teaches most about the validation clients, the table keeps a row for
// each part, the guarantee says what validation clients were used for, and a run that was killed ends the same.
func TestValidatedMix(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	testworld.AskOnce(&c)
	c.Trainer.Rounds, c.Synthetic.Texts, c.Synthetic.PublicTexts, c.Synthetic.Mix = 2, 40, 10, "validated"
	c.Downstream.Steps, c.Downstream.EvalEvery = 20, 5
	dir := t.TempDir()
	var mixed evaluator.Mixed
	var said []string
	o := Options{Config: c, Dir: dir, Events: rounds.Events{Say: func(text string) { said = append(said, text) },
		Log: func(event string, _ int, v any) {
			if event == "mixed" {
				mixed = v.(evaluator.Mixed)
			}
		}}}
	mustTrain(t, o)
	if len(mixed.Mixes) != 3 || mixed.Mixes[0].Rows != 50 || mixed.Mixes[1].Rows != 40 ||
		mixed.Mixes[2].Rows != target.AllRows {
		t.Fatalf("chosen from %+v", mixed)
	}
	// Of mixes that are equally good, the first one is taken.
	best := slices.MaxFunc(mixed.Mixes, func(a, b evaluator.Mix) int { return cmp.Compare(a.Accuracy, b.Accuracy) })
	product := samplesIn(t, filepath.Join(dir, rundir.Synthetic))
	if len(product) != best.Rows || mixed.Chosen != best.Name {
		t.Errorf("the synthetic set has %d rows, and %+v was the best", len(product), best)
	}
	if !slices.ContainsFunc(said, func(s string) bool {
		return strings.Contains(s, mixed.Chosen) &&
			strings.Contains(s, "validation")
	}) {
		t.Errorf("the user is not told what was chosen: %q", said)
	}
	sameInterrupted(t, c, dir, rounds.Stage{Name: "synthesize after round 2"})

	s := mustOpen(t, Options{Dir: dir, Resume: true})
	defer s.Close()
	e, err := s.Evaluate(t.Context(), evaluator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Result(evaluation.KeyWritten) == nil || e.Result(evaluation.KeyWritten).Texts != 40 ||
		e.Result(evaluation.KeySelected) == nil || e.Result(evaluation.KeySelected).Texts != 10 {
		t.Errorf("the table's parts: %+v", e.Results)
	}
	page, err := reporting.Of(dir)
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(append(page.Privacy.Statement, page.Privacy.Warnings...), " "); strings.Count(all,
		"synthetic.mix=validated") != 2 || s.Config.Provenance[guarantee.ValidationKey] != string(guarantee.Mixing) {
		t.Errorf("the guarantee does not name the choice: %s", all)
	}
	// A method whose product is public text alone has nothing to choose.
	c.Method = "public_selection"
	dir = t.TempDir()
	mustTrain(t, Options{Config: c, Dir: dir})
	if facts, err := guarantee.Read(dir); err != nil || facts.Validation.Has(guarantee.Mixing) {
		t.Errorf("public selection has chosen by validation clients: %+v (%v)", facts, err)
	}
	c.Method = "popri"
	noValidation := c
	p, err := clients.Read(c.Data.Private)
	if err != nil {
		t.Fatal(err)
	}
	p.Clients = slices.DeleteFunc(p.Clients, func(x clients.Client) bool { return x.Split == clients.Validation })
	noValidation.Data.Private = filepath.Join(t.TempDir(), "clients.parquet")
	if err := clients.Write(noValidation.Data.Private, p); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Config: noValidation, Dir: t.TempDir()}); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), "synthetic.mix") {
		t.Errorf("without validation clients: %v", err)
	}
}
