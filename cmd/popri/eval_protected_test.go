package main

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testworld"
)

// TestEvalProtected: the test clients of a run can be protected, until figures without noise are there.
func TestEvalProtected(t *testing.T) {
	w, err := testworld.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if code, _, errs := popri(t, "run", "--config", w.File, "--quiet", "--out", dir, "--set",
		"trainer.rounds=1"); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := popri(t, "eval", "--run", dir, "--quiet", "--protect-test", "3")
	if code != 0 || !strings.Contains(out, "synthetic.parquet") ||
		!strings.Contains(out, "ε = 3 ") && !strings.Contains(out, "ε = 2.9") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if _, again, _ := popri(t, "eval", "--run", dir, "--quiet", "--protect-test", "3"); again != out {
		t.Errorf("again:\n%s\nwant:\n%s", again, out)
	}
	for mistake, flags := range map[string][]string{
		"must be above 0": {"--run", dir, "--protect-test", "0"},
		"needs --out":     {"--config", w.File, "--synthetic", w.Public, "--protect-test", "1"},
		"--out cannot be": {"--run", dir, "--out", t.TempDir(), "--protect-test", "1"},
		"another budget":  {"--run", dir, "--protect-test", "1"},
	} {
		if code, _, errs := popri(t, append([]string{"eval", "--quiet"}, flags...)...); code != 2 ||
			!strings.Contains(errs, mistake) {
			t.Errorf("%v: exit code %d, %s", flags, code, errs)
		}
	}
	if code, _, errs := popri(t, "eval", "--run", dir, "--quiet"); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := popri(t, "eval", "--run", dir, "--quiet", "--protect-test", "3"); code != 2 ||
		!strings.Contains(errs, "without noise") {
		t.Errorf("after an evaluation without noise: exit code %d, %s", code, errs)
	}
}
