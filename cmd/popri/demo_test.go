package main

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/configs"
	"popri/run/evaluation"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// worldDemo is the demo's command with every setting of the tests' world.
func worldDemo(t *testing.T, w *testworld.World, more ...string) []string {
	args := []string{"demo", "--quiet"}
	standard := configs.Default()
	for _, k := range configs.Keys() {
		have, _ := standard.Get(k.Name)
		want, _ := w.Config.Get(k.Name)
		if !reflect.DeepEqual(have, want) {
			args = append(args, "--set", fmt.Sprintf("%s=%v", k.Name, want))
		}
	}
	return append(append(args, "--set", "eval.reference_private=true"), more...)
}

// TestMethodsTogether: an ablation has methods as its values, and a page compares their runs.
func TestMethodsTogether(t *testing.T) {
	w := testworld.Make(t)
	dir := filepath.Join(t.TempDir(), "methods")
	code, out, errs := popri(t, "ablate", "--config", w.File, "--set", "trainer.rounds=2", "--over",
		"method=popri,private_evolution", "--out", dir, "--quiet", "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	rows := decode(t, out)["rows"].([]any)
	var runs []string
	for i, name := range []string{"popri", "private_evolution"} {
		row := rows[i].(map[string]any)
		runs = append(runs, row["runs"].([]any)[0].(string))
		e, err := evaluation.Read(runs[i])
		if err != nil || e.Result(name) == nil ||
			number(t, row["accuracy"].(map[string]any), "mean") != e.Result(name).Accuracy {
			t.Errorf("%s: %v, %v", name, row, err)
		}
	}
	page := filepath.Join(t.TempDir(), "compare.html")
	if code, _, errs := popri(t, "compare", runs[0], runs[1], "--out", page); code != 0 {
		t.Fatal(errs)
	}
	content := testfile.Read(t, page)
	for _, want := range []string{"POPri run", "Private Evolution run", "Distance to the clients", "Selected samples",
		"DPO loss"} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if code, out, errs := popri(t, "account", "audit", runs[1], "--confidence", "0.9999999", "--trials",
		"400"); code != 0 || !strings.Contains(out, "degrees of freedom") || !strings.Contains(out, "canary game") {
		t.Errorf("the audit: exit code %d, %s, %s", code, out, errs)
	}
}

// TestDemoMinutes: a demo that would take longer than --minutes has fewer rounds and texts and says so, and a bound that
// is none is refused.
func TestDemoMinutes(t *testing.T) {
	w := testworld.Shared(t)
	long := worldDemo(t, w, "--set", "trainer.rounds=4", "--set", "synthetic.texts=100000000", "--dry-run", "--json",
		"--out", filepath.Join(t.TempDir(), "demo"), "--quiet=false")
	for minutes, want := range map[string]float64{"0": 100000000, "1": 25000000} {
		code, out, errs := popri(t, append(long, "--minutes", minutes)...)
		if code != 0 {
			t.Fatal(errs)
		}
		if got := number(t, decode(t, out)["work"].(map[string]any), "product"); got != want {
			t.Errorf("--minutes %s: %g texts, want %g", minutes, got, want)
		}
		if said := strings.Contains(errs, "the least that --minutes allows"); said != (minutes != "0") {
			t.Errorf("--minutes %s says %q", minutes, errs)
		}
	}
	if code, _, errs := popri(t, append(long, "--minutes", "-1")...); code != exitUsage ||
		!strings.Contains(errs, "--minutes -1") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
