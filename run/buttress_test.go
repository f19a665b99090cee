package run

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/accountant/guarantee"
	"popri/configs"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/safetensors"
	"popri/run/auditing"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestButtress: the small model that clients trained filters the synthetic set that it was first trained on, without a
// charge. All texts are kept where keep is 1, and have the gain 0 where the clients' training changed nothing.
func TestButtress(t *testing.T) {
	c := testworld.Shared(t).Config
	testworld.AskOnce(&c)
	c.Method, c.Downstream.Recipe, c.Eval.ReferencePrivate = "public_selection", "pretrained", false
	c.Privacy.Epsilon /= 2
	first, a := trainedSession(t, c)
	if _, err := first.Evaluate(t.Context(), evaluator.Options{}); err != nil {
		t.Fatal(err)
	}
	first.Close()
	of := func(dir string, set ...string) configs.Config {
		t.Helper()
		c, err := configs.Load(configs.LoadOptions{File: filepath.Join(dir, rundir.Config), Set: append(set, "privacy.epsilon=20")})
		if err != nil {
			t.Fatal(err)
		}
		return *c
	}
	refused := func(c configs.Config, want string) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "run")
		if err := train(t.Context(), Options{Config: c, Dir: dir}); err == nil || !strings.Contains(err.Error(), want) ||
			exists(dir) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused(of(a, "method=buttress", "privacy.continues="+a), "not the small model of another run")
	refused(of(a, "method=buttress", "privacy.continues="+filepath.Join(a, "no")), "privacy.continues")

	b := trained(t, of(a, append(methods.Further(a), "trainer.rounds=2", "trainer.select=last")...))
	filter := of(a, "method=buttress", "privacy.continues="+b)
	refused(of(a, "method=buttress", "privacy.continues="+b, "downstream.model="+filepath.Join(a, rundir.Small)),
		"downstream.model")
	poor := filter
	poor.Privacy.Epsilon = 11
	refused(poor, "privacy.epsilon")
	hidden := filepath.Join(a, rundir.Synthetic)
	if err := os.Rename(hidden, hidden+"~"); err != nil {
		t.Fatal(err)
	}
	refused(filter, "no synthetic set")
	if err := os.Rename(hidden+"~", hidden); err != nil {
		t.Fatal(err)
	}
	// A ledger has one successor, so another filter needs the run before it as it was.
	pristine := t.TempDir()
	testfile.Copy(t, pristine, b)
	anew := func() {
		t.Helper()
		if err := errors.Join(os.RemoveAll(b), os.CopyFS(b, os.DirFS(pristine))); err != nil {
			t.Fatal(err)
		}
	}
	textsOf := func(dir string) []sampling.Row {
		t.Helper()
		list := samplesIn(t, filepath.Join(dir, rundir.Synthetic))
		return list
	}
	set := textsOf(a)

	dir := trained(t, filter)
	kept := textsOf(dir)
	if len(kept) != int(math.Round(.2*float64(len(set)))) {
		t.Errorf("%d of %d texts are kept", len(kept), len(set))
	}
	figures, err := rounds.ReadMetrics(dir)
	if err != nil || *figures[0].Get("gain/kept") <= *figures[0].Get("gain") {
		t.Errorf("the kept texts gain less than all: %+v (%v)", figures, err)
	}
	_, before := testworld.Charges(t, b)
	_, after := testworld.Charges(t, dir)
	was, err1 := guarantee.Read(b)
	is, err2 := guarantee.Read(dir)
	if err := errors.Join(err1, err2); err != nil || len(after) != len(before) || is.Spent != was.Spent ||
		!slices.ContainsFunc(is.Warnings(), func(w string) bool { return strings.Contains(w, "of an earlier run were chosen") }) {
		t.Errorf("%d charges after %d, ε = %g after %g (%v), %q", len(after), len(before), is.Spent, was.Spent, err, is.Warnings())
	}
	anew()
	sameInterrupted(t, filter, dir, rounds.Stage{Round: 1, Name: "score"})

	anew()
	s, dir := trainedSession(t, filter)
	e, err := s.Evaluate(t.Context(), evaluator.Options{})
	if err != nil || e.Result("buttress").Key == "" || !rundir.Has(dir, rundir.Small) {
		t.Errorf("the evaluation: %+v, %v", e, err)
	}
	s.Close()
	r, err := reporting.Of(dir)
	if text := strings.Join(r.Privacy.Statement, " "); err != nil || !strings.Contains(text, "The clients were not asked") {
		t.Errorf("the report: %v, %s", err, text)
	}
	if audit, err := auditing.Runs([]string{dir}, auditing.Options{}); err != nil || !audit.Runs[0].Sound() {
		t.Errorf("the audit: %v, %+v", err, audit)
	}
	again := of(dir, append(methods.Further(dir), "trainer.rounds=1")...)
	again.Privacy.Epsilon = 40
	if _, all := testworld.Charges(t, trained(t, again)); len(all) != len(after)+1 {
		t.Errorf("%d charges after %d where clients train the new small model", len(all), len(after))
	}

	anew()
	testworld.Set(&filter, "buttress.keep=1")
	all := trained(t, filter)
	if !reflect.DeepEqual(textsOf(all), set) {
		t.Error("keep = 1 changes the set")
	}
	testworld.Set(&filter, "buttress.keep=0.2", "privacy.continues="+all)
	if !reflect.DeepEqual(textsOf(trained(t, filter)), kept) {
		t.Error("a filter that follows a filter does not have its models")
	}
	anew()
	start, err := os.ReadFile(filepath.Join(a, rundir.Small, safetensors.ModelFile))
	if err := errors.Join(err, os.WriteFile(filepath.Join(b, rundir.Small, safetensors.ModelFile), start, 0o600)); err != nil {
		t.Fatal(err)
	}
	testworld.Set(&filter, "privacy.continues="+b)
	if !reflect.DeepEqual(textsOf(trained(t, filter)), set[:len(kept)]) {
		t.Error("equal models prefer a text")
	}
}
