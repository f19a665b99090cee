package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/datakey"
	"popri/testkit/testworld"
)

// filesUnder lists all files under folders.
func filesUnder(t *testing.T, folders ...string) (list []string) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				list = append(list, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// TestDryRun: what a dry run says is what the run then does, and it leaves nothing: no run, no model, no key.
func TestDryRun(t *testing.T) {
	w := testworld.Make(t)
	home, cache := t.TempDir(), t.TempDir()
	own := []string{"demo", "--private", w.Private, "--public", w.Public, "--epsilon", "3", "--set",
		"privacy.delta=1e-3", "--dry-run"}
	run := []string{"run", "--config", w.File, "--set", "privacy.epsilon=3", "--out", filepath.Join(home, "run")}

	t.Run("leaves nothing", func(t *testing.T) {
		t.Setenv("POPRI_CACHE", cache)
		t.Setenv(datakey.Variable, filepath.Join(home, "key"))
		code, out, errs := popri(t, append(own, "--json", "--out", filepath.Join(home, "demo"))...)
		if code != 0 {
			t.Fatal(errs)
		}
		v := decode(t, out)
		train := v["clients"].(map[string]any)["train"].(map[string]any)
		if e := number(t, v, "epsilon"); !(e > 2.9 && e <= 3) || number(t, v, "delta") != 1e-3 ||
			!(number(t, train, "clients") > 1) || !(number(t, v, "noise_multiplier") > 0) ||
			!(number(t, v, "seconds") > 0) || len(v["trained_first"].([]any)) != 2 {
			t.Errorf("%v", v)
		}
		work := v["work"].(map[string]any)
		if !(number(t, work, "memory_bytes") > 1e6) || number(t, work, "small_models") != 6 {
			t.Errorf("work: %v", work)
		}
		code, out, errs = popri(t, own...)
		for _, want := range []string{"train clients", "noise multiplier", "ε = 3 of 3, δ = 0.001", "memory",
			"synthetic.parquet: 4000 texts", "trained first", "guarantee", "eval.json"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is missing in %s", want, out)
			}
		}
		if code, out, errs := popri(t, append(run, "--dry-run")...); code != 0 || strings.Contains(out, "eval.json") ||
			!strings.Contains(out, "nobody is protected") {
			t.Errorf("exit code %d, %s%s", code, out, errs)
		}
		if code != 0 || errs != "" {
			t.Errorf("exit code %d, %s", code, errs)
		}
		if left := filesUnder(t, home, cache); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})

	_, out, _ := popri(t, append(run, "--dry-run", "--json")...)
	planned := decode(t, out)
	code, out, errs := popri(t, append(run, "--json", "--quiet")...)
	if code != 0 {
		t.Fatal(errs)
	}
	done := decode(t, out)
	train := planned["clients"].(map[string]any)["train"].(map[string]any)
	if math.Abs(number(t, planned, "epsilon")-number(t, done, "epsilon")) > 1e-12 ||
		number(t, train, "clients") != number(t, done, "clients") || planned["guarantee"] != done["guarantee"] {
		t.Errorf("planned %v, done %v", planned, done)
	}

	if _, out, errs := popri(t, append(own, "--set", "privacy.noise_multiplier=0.1")...); !strings.Contains(out,
		"before the last one (exit code 3)") {
		t.Errorf("too little noise: %s%s", out, errs)
	}
	public := filepath.Join(t.TempDir(), "none.txt")
	for want, args := range map[string][]string{
		"name another folder":           append(run, "--dry-run"),
		"do not combine it with --dry":  {"run", "--resume", "--dry-run", "--out", filepath.Join(home, "run")},
		"--allow-embedded":              {"run", "--dry-run", "--set", "data.private=" + w.Private},
		public:                          {"demo", "--dry-run", "--private", w.Private, "--public", public},
		"is the file of the clients":    {"demo", "--dry-run", "--private", w.Private, "--public", w.Private},
		"delta":                         append(own, "--set", "privacy.delta=0.5"),
		"the model folder /none is not": append(own, "--set", "model.path=/none"),
	} {
		if code, stdout, errs := popri(t, args...); code != exitUsage || stdout != "" || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %s%s", args, code, stdout, errs)
		}
	}
}
