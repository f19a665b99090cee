package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/testworld"
	"popri/run/evaluation"
)

// TestLabels: popri run writes labelled text, popri eval judges classifiers in its first line and table, and popri data
// push-ready gives the labels away; without labels the mistake is named.
func TestLabels(t *testing.T) {
	w, err := testworld.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	task := []string{"--set", "downstream.task=classification", "--set", "data.private=" + w.LabelledPrivate, "--set", "eval.reference_private=true"}
	labels := append([]string{"--set", "data.public=" + w.LabelledPublic}, task...)
	run := append([]string{"run", "--config", w.File, "--quiet", "--out", dir, "--set", "trainer.rounds=1"}, labels...)
	if code, _, errs := popri(t, run...); code != 2 || !strings.Contains(errs, "generate.by_label=true") {
		t.Errorf("without labelled prompts: exit code %d: %s", code, errs)
	}
	plain := append([]string{"run", "--config", w.File, "--quiet", "--out", dir, "--set", "generate.by_label=true"}, task...)
	if code, _, errs := popri(t, plain...); code != 2 || !strings.Contains(errs, w.Public+": bad file: line 1 has no label") {
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
	if !strings.HasPrefix(first, "The product") || !strings.Contains(out, "macro F1 %") || !strings.Contains(out, "public text (ε = 0)") ||
		strings.Contains(out, "perplexity") {
		t.Errorf("the table:\n%s", out)
	}
	var run1, alone evaluation.Outcome
	_, out, _ = popri(t, "eval", "--run", dir, "--quiet", "--json")
	if err := json.Unmarshal([]byte(out), &run1); err != nil {
		t.Fatal(err)
	}
	code, out, errs = popri(t, append([]string{"eval", "--config", w.File, "--quiet", "--json", "--synthetic", filepath.Join(dir, "synthetic.parquet")},
		labels...)...)
	if err := json.Unmarshal([]byte(out), &alone); code != 0 || err != nil {
		t.Fatal(code, err, errs)
	}
	a, b := run1.Result("popri"), alone.Result(evaluation.KeyText)
	if a == nil || b == nil || a.MacroF1 == nil || *a.MacroF1 != *b.MacroF1 || a.Accuracy != b.Accuracy || strings.Contains(out, "perplexity") {
		t.Errorf("in the run %+v, alone %+v", a, b)
	}
	hub := filepath.Join(t.TempDir(), "hub")
	code, out, errs = popri(t, "data", "push-ready", dir, "--out", hub, "--json", "--unprotected")
	if code != 0 || decode(t, out)["labels"] != 2.0 {
		t.Errorf("push-ready: exit code %d, %s%s", code, out, errs)
	}
}
