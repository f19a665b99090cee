package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/eval/incontext"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/run/evaluation"
	"popri/testkit/testworld"
)

// TestLabels: popri run writes labelled text, popri eval judges classifiers in its first line and table, and popri data
// push-ready gives the labels away; without labels the mistake is named.
func TestLabels(t *testing.T) {
	w := testworld.Make(t)
	dir := filepath.Join(t.TempDir(), "run")
	task := []string{"--set", "downstream.task=classification", "--set", "data.private=" + w.LabelledPrivate, "--set",
		"eval.reference_private=true"}
	labels := append([]string{"--set", "data.public=" + w.LabelledPublic}, task...)
	run := append([]string{"run", "--config", w.File, "--quiet", "--out", dir, "--set", "trainer.rounds=1"}, labels...)
	if code, _, errs := popri(t, run...); code != 2 || !strings.Contains(errs, "generate.by_label=true") {
		t.Errorf("without labelled prompts: exit code %d: %s", code, errs)
	}
	plain := append([]string{"run", "--config", w.File, "--quiet", "--out", dir, "--set", "generate.by_label=true"},
		task...)
	if code, _, errs := popri(t, plain...); code != 2 ||
		!strings.Contains(errs, w.Public+": bad file: line 1 has no label") {
		t.Errorf("public text without labels: exit code %d: %s", code, errs)
	}
	if code, _, errs := popri(t, append(run, "--set", "generate.by_label=true")...); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := popri(t, "eval", "--run", dir, "--quiet")
	if code != 0 {
		t.Fatal(errs)
	}
	first, _, _ := strings.Cut(out, "\n")
	if !strings.Contains(first, "The small model is") || !strings.Contains(out, "macro F1 %") ||
		!strings.Contains(out, "public text (ε = 0)") || strings.Contains(out, "perplexity") {
		t.Errorf("the table:\n%s", out)
	}
	var run1, alone evaluation.Outcome
	_, out, _ = popri(t, "eval", "--run", dir, "--quiet", "--json")
	if err := json.Unmarshal([]byte(out), &run1); err != nil {
		t.Fatal(err)
	}
	code, out, errs = popri(t,
		append([]string{"eval", "--config", w.File, "--quiet", "--json", "--synthetic",
			filepath.Join(dir, "synthetic.parquet")}, labels...)...)
	if err := json.Unmarshal([]byte(out), &alone); code != 0 || err != nil {
		t.Fatal(code, err, errs)
	}
	a, b := run1.Result("popri"), alone.Result(evaluation.KeyText)
	if a == nil || b == nil || a.MacroF1 == nil || *a.MacroF1 != *b.MacroF1 || a.Accuracy != b.Accuracy ||
		strings.Contains(out, "perplexity") {
		t.Errorf("in the run %+v, alone %+v", a, b)
	}
	shown := []string{"eval", "--task", "in-context", "--run", dir, "--quiet", "--json", "--shots", "1,2", "--draws",
		"3", "--test-texts", "5", "--set", "downstream.length=24"}
	code, out, errs = popri(t, shown...)
	if code != 0 {
		t.Fatal(errs)
	}
	var e, again incontext.Outcome
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.ReadJSON(filepath.Join(dir, rundir.InContext), &again); err != nil ||
		!reflect.DeepEqual(e, again) {
		t.Errorf("in the run %+v (%v), printed %+v", again, err, e)
	}
	var kinds []string
	for _, r := range e.Results {
		kinds = append(kinds, fmt.Sprintf("%s %d×%d", r.Key, r.Shots, len(r.Draws)))
		for _, d := range r.Draws {
			if n := d.Accuracy * 5; d.Accuracy > 1 || math.Abs(n-math.Round(n)) > 1e-9 {
				t.Errorf("%s: the accuracy on 5 texts is %g", r.Key, d.Accuracy)
			}
		}
	}
	want := []string{"none 0×1", "text 1×3", "public 1×3", "private 1×3", "text 2×3", "public 2×3", "private 2×3"}
	if !slices.Equal(kinds, want) || e.Texts != 5 || len(e.Labels) != 2 {
		t.Errorf("rows %v, %d texts, labels %v", kinds, e.Texts, e.Labels)
	}
	if _, same, _ := popri(t, shown...); same != out {
		t.Error("asked again, the model gives other figures")
	}
	code, out, errs = popri(t, "eval", "--task", "in-context", "--run", dir, "--quiet", "--draws", "1", "--test-texts",
		"5", "--shots", "1", "--set", "downstream.length=24")
	if code != 0 || !strings.Contains(out, "calibrated accuracy %") || !strings.Contains(out, "no demonstrations") {
		t.Errorf("the table: %s%s", out, errs)
	}
	for mistake, flags := range map[string][]string{
		"must be \"in-context\"":           {"--task", "classification"},
		"needs --task in-context":          {"--shots", "3"},
		"no text has the label \"absent\"": {"--task", "in-context", "--name", "absent=gone"},
		"end in {label}":                   {"--task", "in-context", "--item", "{text}"},
		"from 1 to 1000":                   {"--task", "in-context", "--shots", "0"},
		"cannot be combined":               {"--task", "in-context", "--reference-private"},
	} {
		if code, _, errs := popri(t, append([]string{"eval", "--run", dir, "--quiet"}, flags...)...); code != 2 ||
			!strings.Contains(errs, mistake) {
			t.Errorf("%v: exit code %d, %s", flags, code, errs)
		}
	}
	hub := filepath.Join(t.TempDir(), "hub")
	code, out, errs = popri(t, "data", "push-ready", dir, "--out", hub, "--json", "--unprotected")
	if code != 0 || decode(t, out)["labels"] != 2.0 {
		t.Errorf("push-ready: exit code %d, %s%s", code, out, errs)
	}
}
