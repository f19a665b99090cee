package main

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/rundir"
)

func TestReportToRefuses(t *testing.T) {
	t.Setenv("MLFLOW_TRACKING_URI", "sqlite:///runs.db")
	out := filepath.Join(t.TempDir(), "out")
	for _, verb := range [][]string{{"run", "--preset", "demo"}, {"demo"}, {"dpo", "--pairs", "pairs.jsonl"},
		{"ablate", "--over", "dpo.beta=1,2"}, {"reproduce", "table4-rank"}} {
		for tracker, want := range map[string]string{
			"wandb":  `popri: ` + verb[0] + `: "wandb" is no tracker; there are tensorboard, mlflow` + "\n",
			"mlflow": `popri: ` + verb[0] + `: mlflow: MLFLOW_TRACKING_URI is "sqlite:///runs.db", must be the URL of a server, such as http://127.0.0.1:5000` + "\n",
		} {
			code, _, errs := popri(t, append(verb, "--out", out, "--report-to", tracker)...)
			if code != exitUsage || errs != want {
				t.Errorf("%s --report-to %s: exit code %d, %q, want %q", verb[0], tracker, code, errs, want)
			}
		}
	}
}

// A server that is not there costs one warning, and the other tracker has everything.
func TestReportToWithoutServer(t *testing.T) {
	t.Setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
	model, dir := tinyModel(t), t.TempDir()
	pairs := write(t, dir, "pairs.jsonl", strings.Repeat(`{"prompt": "the 1", "chosen": " cat", "rejected": " hat"}`+"\n", 6))
	out := filepath.Join(dir, "adapter")
	code, _, errs := popri(t, "dpo", "--pairs", pairs, "--model", model, "--out", out, "--set", "dpo.epochs=2", "--set", "dpo.batch_pairs=2",
		"--set", "model.dtype=float32", "--report-to", "mlflow,tensorboard", "--quiet")
	if code != 0 || strings.Count(errs, "warning: ") != 1 || !strings.Contains(errs, "warning: mlflow: ") ||
		!strings.HasSuffix(errs, "; the run goes on without\n") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	files, err := filepath.Glob(filepath.Join(out, rundir.TensorBoard, "events.out.tfevents.*"))
	if err != nil || len(files) != 1 {
		t.Errorf("%v, %v: want one event file", files, err)
	}
}
