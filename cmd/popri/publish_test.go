package main

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/rundir"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestPublishVerb: what is published passes its audit, and has neither times nor figures of test clients; a run that
// protects nobody needs a flag.
func TestPublishVerb(t *testing.T) {
	w := testworld.Make(t)
	dir, to := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "public")
	if code, _, errs := popri(t, "run", "--config", w.File, "--quiet", "--out", dir, "--set", "trainer.rounds=1",
		"--set", "privacy.insecure_seeded_noise=false"); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := popri(t, "eval", "--run", dir, "--quiet"); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := popri(t, "publish", dir, "--to", to, "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	kept := decode(t, out)["kept"].([]any)
	for _, name := range []string{rundir.Eval, rundir.Events, "rounds/0001/" + rundir.Metrics} {
		if rundir.Has(to, name) || !strings.Contains(out, name) {
			t.Errorf("%s was published, or is not named: %v", name, kept)
		}
	}
	if code, out, errs := popri(t, "account", "audit", to, "--trials", "0"); code != 0 || strings.Contains(out, rundir.Events) {
		t.Errorf("the copy's audit: exit code %d, %s%s", code, out, errs)
	}
	if code, _, errs := popri(t, "report", to); code != 0 {
		t.Errorf("the copy's report: exit code %d, %s", code, errs)
	} else if page := string(testfile.Read(t, filepath.Join(to, rundir.Report))); strings.Contains(page, "interrupted") {
		t.Error("the report calls the copy of a finished run interrupted")
	}
	if code, out, _ := popri(t, "account", "audit", dir, "--trials", "0"); code != 0 || !strings.Contains(out, rundir.Events) {
		t.Errorf("the run's audit names no events: exit code %d, %s", code, out)
	}
	if code, _, errs := popri(t, "publish", dir, "--to", to); code != 2 || !strings.Contains(errs, "there already") {
		t.Errorf("twice: exit code %d, %s", code, errs)
	}
	if code, _, errs := popri(t, "publish", dir, "--to", filepath.Join(dir, "sub")); code != 2 || !strings.Contains(errs, "inside the run") {
		t.Errorf("into the run: exit code %d, %s", code, errs)
	}
	seeded := filepath.Join(t.TempDir(), "seeded")
	if code, _, errs := popri(t, "run", "--config", w.File, "--quiet", "--out", seeded, "--set", "trainer.rounds=1"); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := popri(t, "publish", seeded, "--to", filepath.Join(t.TempDir(), "x")); code != 2 ||
		!strings.Contains(errs, "protects nobody") {
		t.Errorf("a run that protects nobody: exit code %d, %s", code, errs)
	}
	if code, _, errs := popri(t, "publish", seeded, "--to", filepath.Join(t.TempDir(), "x"), "--unprotected", "--evaluated"); code != 0 {
		t.Error(errs)
	}
}
