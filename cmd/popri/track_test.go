package main

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/rundir"
	"popri/run/evaluation"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

func TestReportToRefuses(t *testing.T) {
	t.Setenv("MLFLOW_TRACKING_URI", "sqlite:///runs.db")
	out := filepath.Join(t.TempDir(), "out")
	for _, verb := range [][]string{{"run", "--preset", "demo"}, {"demo"}, {"dpo", "--pairs", "pairs.jsonl"},
		{"ablate", "--over", "dpo.beta=1,2"}, {"reproduce", "table4-rank"}} {
		for tracker, want := range map[string]string{
			"wandb": `popri: ` + verb[0] + `: "wandb" is no tracker; there are tensorboard, mlflow, otel` + "\n",
			"mlflow": `popri: ` + verb[0] +
				`: mlflow: MLFLOW_TRACKING_URI is "sqlite:///runs.db", must be the URL of a server, such as http://127.0.0.1:5000` +
				"\n",
		} {
			code, _, errs := popri(t, append(verb, "--out", out, "--report-to", tracker)...)
			if code != exitUsage || errs != want {
				t.Errorf("%s --report-to %s: exit code %d, %q, want %q", verb[0], tracker, code, errs, want)
			}
		}
	}
}

// The figures of an evaluation are shown, without the figures of the clients' own text.
func TestReportToEval(t *testing.T) {
	w := testworld.Make(t)
	dir := t.TempDir()
	run, elsewhere := filepath.Join(dir, "run"), filepath.Join(dir, "elsewhere")
	for _, args := range [][]string{
		{"run", "--config", w.File, "--set", "trainer.rounds=1", "--set", "eval.reference_private=true", "--out", run},
		{"eval", "--run", run, "--report-to", "tensorboard"},
		{"judge", "--run", run, "--report-to", "tensorboard"},
		{"eval", "--synthetic", w.Public, "--config", w.File, "--set", "eval.reference_private=true", "--out",
			elsewhere, "--report-to", "tensorboard"},
	} {
		if code, _, errs := popri(t, append(args, "--quiet")...); code != 0 {
			t.Fatalf("%q: %s", args, errs)
		}
	}
	for folder, want := range map[string][]string{run: {"downstream/accuracy/popri", "downstream/perplexity/untuned",
		"judge/mauve/product", "judge/frechet/other_clients", "round/fid", "rewards/margins"},
		elsewhere: {"downstream/accuracy/text", "downstream/perplexity/public"}} {
		files, err := filepath.Glob(filepath.Join(folder, rundir.TensorBoard, "events.out.tfevents.*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v: want one event file", files, err)
		}
		b := testfile.Read(t, files[0])
		for _, name := range want {
			if !strings.Contains(string(b), name) {
				t.Errorf("%s lacks %s", files[0], name)
			}
		}
		if strings.Contains(string(b), "downstream/accuracy/private") {
			t.Errorf("%s has what is outside of ε", files[0])
		}
		if e, err := evaluation.Read(folder); err != nil || !e.HasReference() {
			t.Errorf("%s: %v: no figures, or none of the clients' own text", folder, err)
		}
	}
	for _, args := range [][]string{
		{"eval", "--synthetic", w.Public, "--config", w.File, "--report-to", "tensorboard"},
		{"eval", "--synthetic", w.Public, "--config", w.File, "--out", run},
		{"eval", "--synthetic", w.Public, "--config", w.File, "--out", elsewhere},
		{"eval", "--run", run, "--out", elsewhere},
	} {
		if code, _, errs := popri(t, args...); code != exitUsage {
			t.Errorf("%q: exit code %d, %s", args, code, errs)
		}
	}
}

// A server that is not there costs one warning, and the tracker without one has everything.
func TestReportToWithoutServer(t *testing.T) {
	t.Setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	model, dir := tinyModel(t), t.TempDir()
	pairs := write(t, dir, "pairs.jsonl",
		strings.Repeat(`{"prompt": "the 1", "chosen": " cat", "rejected": " hat"}`+"\n", 6))
	out := filepath.Join(dir, "adapter")
	code, _, errs := popri(t, "dpo", "--pairs", pairs, "--model", model, "--out", out, "--set", "optimizer.epochs=2",
		"--set", "optimizer.batch=2", "--set", "model.dtype=float32", "--report-to", "mlflow,tensorboard,otel",
		"--quiet")
	if code != 0 || strings.Count(errs, "warning: ") != 2 || !strings.Contains(errs, "warning: mlflow: ") ||
		!strings.Contains(errs, "warning: otel: ") || !strings.HasSuffix(errs, "; the run continues without\n") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	files, err := filepath.Glob(filepath.Join(out, rundir.TensorBoard, "events.out.tfevents.*"))
	if err != nil || len(files) != 1 {
		t.Errorf("%v, %v: want one event file", files, err)
	}
}
