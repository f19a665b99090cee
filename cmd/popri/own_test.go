package main

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/configs"
	"popri/internal/rundir"
	"popri/testkit/testfile"
)

// TestOwnDataWithEmbeddedModels: clients of the user's are not tuned for with the embedded default's text or models,
// unless that is asked for by name. The refusal comes before the clients' file is looked for, and has the command that
// is right.
func TestOwnDataWithEmbeddedModels(t *testing.T) {
	dir := t.TempDir()
	private, public := filepath.Join(dir, "none.parquet"), filepath.Join(dir, "none.jsonl")
	t.Setenv("POPRI_CACHE", t.TempDir())
	mine := []string{"--set", "data.private=" + private}
	text := append(mine[:2:2], "--set", "data.public="+public)
	for _, c := range []struct {
		verb  []string
		set   []string
		names []string // keys that the error names; none: it is about the file that is not there
	}{
		{[]string{"run", "--preset", "demo"}, mine,
			[]string{"data.public is godoc", "model.path is embedded", "downstream.model is embedded"}},
		{[]string{"run"}, text, []string{"model.path is embedded", "downstream.model is embedded"}},
		{[]string{"run", "--preset", "demo-smollm2"}, text, []string{"downstream.model is embedded"}},
		{[]string{"demo"}, mine, []string{"data.public is godoc", "model.path is embedded"}},
		{[]string{"ablate", "--over", "dpo.beta=0.1,0.2"}, text, []string{"model.path is embedded"}},
		{[]string{"reproduce", "table4-rank", "--plan"}, text, []string{"model.path is embedded"}},
		{[]string{"ablate", "--over", "model.path=a,b", "--set", "downstream.model=trained"}, text, nil},
		{[]string{"run", "--allow-embedded"}, mine, nil},
		{[]string{"ablate", "--over", "dpo.beta=0.1", "--allow-embedded"}, mine, nil},
		{[]string{"run"}, append(text[:4:4], "--set", "model.path=trained", "--set", "downstream.model=trained"), nil},
		{[]string{"demo", "--private", private, "--public", public}, nil, nil},
	} {
		out := filepath.Join(dir, "out")
		args := append(append(c.verb[:len(c.verb):len(c.verb)], c.set...), "--out", out)
		code, stdout, errs := popri(t, args...)
		if code != exitUsage || stdout != "" || rundir.Exists(out) {
			t.Errorf("%v: exit code %d, %q", args, code, stdout)
		}
		for _, name := range c.names {
			if !strings.Contains(errs, name) {
				t.Errorf("%v: %q lacks %q", args, errs, name)
			}
		}
		if refused := strings.Contains(errs, "--allow-embedded"); refused != (c.names != nil) ||
			!refused && !strings.Contains(errs, "no such file") {
			t.Errorf("%v: %s", args, errs)
		}
		if c.names == nil {
			continue
		}
		var line string
		for l := range strings.Lines(errs) {
			if after, found := strings.CutPrefix(l, "  popri "); found {
				line = strings.ReplaceAll(strings.TrimSpace(after), "=FILE", "="+public)
			}
		}
		if _, _, errs := popri(t, words.FindAllString(line, -1)...); !strings.Contains(errs, "no such file") {
			t.Errorf("%v: the error's own command %q: %s", args, line, errs)
		}
	}

	// What was begun continues.
	c := configs.Default()
	c.Data.Private, c.Eval.ReferencePrivate = private, false
	begun, grid := filepath.Join(dir, "begun"), filepath.Join(dir, "grid")
	for _, folder := range []string{begun, filepath.Join(grid, "dpo.beta=0.1,seed=1")} {
		testfile.Write(t, filepath.Join(folder, rundir.Config), c.YAML())
	}
	for _, args := range [][]string{{"run", "--resume", "--out", begun},
		append([]string{"ablate", "--over", "dpo.beta=0.1", "--out", grid}, mine...),
		append([]string{"demo", "--out", begun}, mine...)} {
		if _, _, errs := popri(t, args...); !strings.Contains(errs, "no such file") {
			t.Errorf("%v: %s", args, errs)
		}
	}
}
