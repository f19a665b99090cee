package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/datakey"
	"popri/internal/rundir"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestEvalProtected: the test clients of a run can be protected, until figures without noise are there.
func TestEvalProtected(t *testing.T) {
	w := testworld.Make(t)
	t.Setenv(datakey.Variable, filepath.Join(t.TempDir(), "data.key")) // next to it is the record of who is protected
	dir := filepath.Join(t.TempDir(), "run")
	if code, _, errs := popri(t, "run", "--config", w.File, "--quiet", "--out", dir, "--set",
		"trainer.rounds=1"); code != 0 {
		t.Fatal(errs)
	}
	t.Setenv("POPRI_DATA_PRIVATE", "/other/clients.parquet") // of other work: a run has its own configuration
	code, out, errs := popri(t, "eval", "--run", dir, "--quiet", "--protect-test", "3")
	if code != 0 || !strings.Contains(out, "synthetic.parquet") ||
		!strings.Contains(out, "ε = 3 ") && !strings.Contains(out, "ε = 2.9") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	os.Unsetenv("POPRI_DATA_PRIVATE")
	if _, again, _ := popri(t, "eval", "--run", dir, "--quiet", "--protect-test", "3"); again != out {
		t.Errorf("again:\n%s\nwant:\n%s", again, out)
	}
	for mistake, flags := range map[string][]string{
		"must be above 0":   {"--run", dir, "--protect-test", "0"},
		"needs --out":       {"--config", w.File, "--synthetic", w.Public, "--protect-test", "1"},
		"--out cannot be":   {"--run", dir, "--out", t.TempDir(), "--protect-test", "1"},
		"another budget":    {"--run", dir, "--protect-test", "1"},
		"own configuration": {"--run", dir, "--protect-test", "3", "--private", w.Public},
	} {
		if code, _, errs := popri(t, append([]string{"eval", "--quiet"}, flags...)...); code != 2 ||
			!strings.Contains(errs, mistake) {
			t.Errorf("%v: exit code %d, %s", flags, code, errs)
		}
	}
	audit := func(runs ...string) (code int, errs string, out map[string]any) {
		code, printed, errs := popri(t, append([]string{"account", "audit", "--json", "--trials", "0"}, runs...)...)
		return code, errs, decode(t, printed)
	}
	code, errs, one := audit(dir)
	test, ok := one["protected_test"].(map[string]any)
	if code != 0 || !ok || test["sound"] != true || test["budget"] != 3.0 || test["releases"] != 1.0 {
		t.Errorf("an audit of the run: exit code %d, %s, protected test clients %v", code, errs, test)
	}
	// A second release about the same test clients adds up with the first, and figures without noise are refused.
	second := filepath.Join(t.TempDir(), "second")
	if code, _, errs := popri(t, "eval", "--config", w.File, "--quiet", "--synthetic", w.Public, "--out", second,
		"--protect-test", "3"); code != 0 {
		t.Fatal(errs)
	}
	_, _, both := audit(dir, second)
	var together float64
	for _, c := range both["composed"].([]any) {
		if c := c.(map[string]any); len(c["ledgers"].([]any)) == 2 && c["if_shared"] != true {
			together = number(t, c, "epsilon")
		}
	}
	if together < 4 || together > 6 {
		t.Errorf("two releases of ε = 3 on the same test clients come to %g: %v", together, both["composed"])
	}
	testfile.Replace(t, filepath.Join(second, rundir.Ledger), `"epsilon":3`, `"epsilon":4`)
	if code, _, _ := audit(second); code != 1 {
		t.Errorf("a ledger without a run that was changed: exit code %d", code)
	}
	if code, _, errs := popri(t, "eval", "--run", dir, "--quiet"); code != 2 || !strings.Contains(errs, "are protected") {
		t.Errorf("figures without noise of protected clients: exit code %d, %s", code, errs)
	}
	if code, _, errs := popri(t, "judge", "--run", dir, "--quiet"); code != 2 || !strings.Contains(errs, "are protected") {
		t.Errorf("judge: exit code %d, %s", code, errs)
	}
}

// TestProtectedTooLate: clients whose figures without noise exist are not protected, wherever the figures are.
func TestProtectedTooLate(t *testing.T) {
	w := testworld.Make(t)
	t.Setenv(datakey.Variable, filepath.Join(t.TempDir(), "data.key"))
	dir := filepath.Join(t.TempDir(), "run")
	for _, args := range [][]string{{"run", "--config", w.File, "--out", dir, "--set", "trainer.rounds=1"},
		{"eval", "--run", dir}} {
		if code, _, errs := popri(t, append(args, "--quiet")...); code != 0 {
			t.Fatal(errs)
		}
	}
	for _, args := range [][]string{{"--run", dir}, {"--config", w.File, "--synthetic", w.Public, "--out", t.TempDir()}} {
		if code, _, errs := popri(t, append([]string{"eval", "--quiet", "--protect-test", "3"}, args...)...); code != 2 ||
			!strings.Contains(errs, "without noise") {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}
