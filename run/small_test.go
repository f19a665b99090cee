package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/configs"
	"popri/eval/downstream"
	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/methods"
	"popri/model/safetensors"
	"popri/run/evaluation"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/run/trying"
	"popri/show/datacard"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestSmallModel: an evaluation leaves the small model that was trained on the synthetic set. It scores as the table says,
// an evaluation that was interrupted anywhere leaves the same one, and its card states the guarantee. Another small
// model takes its place when it is asked for.
func TestSmallModel(t *testing.T) {
	c := testworld.Shared(t).Config
	testworld.AskOnce(&c)
	c.Trainer.Rounds, c.Synthetic.Texts, c.Downstream.Steps, c.Downstream.EvalEvery = 1, 40, 20, 5
	s, dir := trainedSession(t, c)
	weights := filepath.Join(dir, rundir.Small, safetensors.ModelFile)
	t.Setenv("POPRI_CACHE", t.TempDir())

	evaluate := func(o evaluator.Options) *evaluation.Outcome {
		t.Helper()
		e, err := s.Evaluate(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	whole := evaluate(evaluator.Options{})
	want := testfile.Read(t, weights)
	alone := c
	alone.Eval.ReferencePrivate = false
	tested, err := evaluator.Texts(t.Context(), alone, filepath.Dir(weights), evaluator.TextsOptions{})
	if err != nil || tested.Result("text").Perplexity != whole.Result("popri").Perplexity ||
		*tested.Result("text").Bits != *whole.Result("popri").Bits {
		t.Errorf("the small model by itself: %+v (%v), in the table %+v", tested, err, whole.Result("popri"))
	}

	// Ended at each fifth of the work, again and again, it ends with the same model.
	forget := func() {
		t.Helper()
		if err := errors.Join(os.Remove(filepath.Join(dir, rundir.Eval)), os.RemoveAll(filepath.Dir(weights))); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	cache := t.TempDir()
	for fifth := 1; fifth < 5; fifth++ {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.Evaluate(ctx, evaluator.Options{Cache: cache, Progress: evaluator.Progress{
			Updated: func(done, planned int) {
				if 5*done > fifth*planned {
					cancel()
				}
			}}})
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	again := evaluate(evaluator.Options{Cache: cache})
	if got, err := os.ReadFile(weights); err != nil || !bytes.Equal(got, want) || !reflect.DeepEqual(again, whole) {
		t.Errorf("an interrupted evaluation leaves another model (%v) or figures:\n%+v\n%+v", err, again, whole)
	}

	if _, err := reporting.Write(dir); err != nil {
		t.Fatal(err)
	}
	card, err := os.ReadFile(filepath.Join(dir, rundir.Small, datacard.Card))
	for _, want := range []string{"library_name: transformers", "pipeline_tag: text-generation", "## Privacy",
		"validation clients", "public checkpoint (ε = 0)", "bits a character"} {
		if !bytes.Contains(card, []byte(want)) {
			t.Errorf("the card lacks %q (%v):\n%s", want, err, card)
		}
	}

	// The models are tried as they are in the run's folder.
	m, err := trying.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	before, after, err := m.Suggest("the ")
	if err != nil || len(before) == 0 || len(after) == 0 {
		t.Errorf("suggested: %q, %q (%v)", before, after, err)
	}
	if typed := whole.Typed; len(typed) > 0 {
		before, after, err := m.Suggest(typed[0])
		if err != nil || !reflect.DeepEqual(before, whole.Results[0].Suggested[0]) ||
			!reflect.DeepEqual(after, whole.Result("popri").Suggested[0]) {
			t.Errorf("after %q: %q, %q (%v)", typed[0], before, after, err)
		}
	}
	untuned, tuned, err := m.Write(t.Context(), 0, 1)
	if err != nil || untuned == "" || tuned == "" || len(m.Prompts()) == 0 {
		t.Errorf("written: %q, %q (%v)", untuned, tuned, err)
	}
	if _, err := trying.Open(t.TempDir()); err == nil {
		t.Error("an empty folder is tried")
	}

	// Another recipe replaces the model, and stands in the report; the run's own configuration stays as it is.
	other := evaluate(evaluator.Options{By: []string{"downstream.steps=3", "downstream.learning_rates=1e-3"}})
	got, err := os.ReadFile(weights)
	if err != nil || bytes.Equal(got, want) || other.Small["downstream.steps"] != "3" {
		t.Errorf("another small model: %v, %+v", err, other.Small)
	}
	if of, err := other.Config(s.Config); err != nil || of.Downstream.Steps != 3 ||
		!reflect.DeepEqual(of.Downstream.LearningRates, []float64{1e-3}) {
		t.Errorf("its settings: %+v (%v)", of.Downstream, err)
	}
	if read := evaluate(evaluator.Options{}); !reflect.DeepEqual(read.Small, other.Small) {
		t.Errorf("without its settings it is trained anew: %+v", read.Small)
	}
	if kept, err := configs.Load(configs.LoadOptions{File: filepath.Join(dir, rundir.Config)}); err != nil ||
		kept.Downstream.Steps != 20 {
		t.Errorf("the run's configuration has changed (%v)", err)
	}
	for _, wrong := range []string{"downstream.length=1", "downstream.trainings=0", "downstream.adapter=foo"} {
		if _, err := s.Evaluate(t.Context(), evaluator.Options{By: []string{wrong}}); err == nil ||
			!strings.Contains(err.Error(), wrong[:strings.Index(wrong, "=")]) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if _, err := s.Evaluate(t.Context(), evaluator.Options{By: []string{"downstream.steps=x"}}); err == nil ||
		!strings.Contains(err.Error(), "downstream.steps") {
		t.Errorf("an impossible setting: %v", err)
	}
	s.Close()
	_, spent := testworld.Charges(t, dir)

	// Clients can train it further: only with what the first run spent in the same ledger.
	c = testworld.Shared(t).Config
	c.Method, c.Trainer.Rounds, c.Downstream.Model = "dp_fedavg", 1, filepath.Dir(weights)
	c.Privacy.Epsilon *= 2
	if _, err := Open(t.Context(), Options{Config: c, Dir: filepath.Join(t.TempDir(), "run")}); err == nil ||
		!strings.Contains(err.Error(), "privacy.continues="+dir) {
		t.Errorf("a start that spent ε: %v", err)
	}
	recipe := c.Downstream.Recipe
	testworld.Set(&c, append(methods.Further(dir), "trainer.rounds=1")...)
	if c.Downstream.Recipe != recipe {
		t.Errorf("the recipe is %s, so that figures do not compare with the first run's of %s", c.Downstream.Recipe, recipe)
	}
	both := c.Privacy.Epsilon
	c.Privacy.Epsilon /= 2
	if _, err := Open(t.Context(), Options{Config: c, Dir: filepath.Join(t.TempDir(), "run")}); err == nil ||
		!strings.Contains(err.Error(), "privacy.epsilon") || !strings.Contains(err.Error(), "spend together") {
		t.Errorf("nothing is left for the clients' training: %v", err)
	}
	c.Privacy.Epsilon = both
	next, further := trainedSession(t, c)
	if _, all := testworld.Charges(t, further); len(all) != len(spent)+1 {
		t.Errorf("%d charges after %d", len(all), len(spent))
	}
	if !rundir.Has(further, rundir.Small) {
		t.Error("the clients' training leaves no small model")
	}
	compared, err := next.Evaluate(t.Context(), evaluator.Options{})
	if err != nil || compared.Result(downstream.Public).Name != "small model of the run before" {
		t.Errorf("what the clients began with stands as %+v (%v)", compared.Result(downstream.Public), err)
	}
	r, err := release.Read(filepath.Join(rundir.Round(further, 1), release.File))
	if err != nil || len(r.Sum) == 0 || len(r.Sum) > 10000 {
		t.Errorf("clients released %d values instead of an adapter's (%v)", len(r.Sum), err)
	}
}
