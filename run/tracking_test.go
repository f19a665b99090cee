package run

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/dpo"
	"popri/dpo/preference"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/run/evaluator"
	"popri/run/standalone"
	"popri/show/series"
	"popri/show/trackers"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// filed is what the files of a run say.
func filed(t *testing.T, dir string) map[string]float64 {
	t.Helper()
	want := map[string]float64{}
	add := func(key string, step any, v any) {
		if f, ok := v.(float64); ok {
			want[fmt.Sprintf("%s@%v", key, step)] = f
		}
	}
	rounds, err := rounds.ReadMetrics(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rounds {
		lines := testfile.ReadLines[map[string]any](t, filepath.Join(rundir.Round(dir, r.Number), preference.StepsFile))
		before := lines[0]["step"].(float64) - 1
		for _, line := range lines {
			for key, v := range line {
				if key != "step" {
					add(key, line["step"], v)
				}
			}
		}
		evals := testfile.ReadLines[map[string]any](t, filepath.Join(rundir.Round(dir, r.Number), preference.EvalsFile))
		for _, line := range evals {
			for key, v := range line {
				if strings.HasPrefix(key, "eval_") {
					add(key, before+line["step"].(float64), v)
				}
			}
		}
		for key, v := range r.Values {
			add("round/"+key, r.Number, v)
		}
	}
	return want
}

// A run that is stopped in the middle of its updates, loses lines of its event log and continues shows each figure of its
// files once, and ends with the same bytes as one that nobody watches.
func TestTrackedRun(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	c.Trainer.Rounds, c.DPO.EvalShare, c.Eval.ReferencePrivate = 2, 0.3, true
	plain := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: plain})
	server, dir := newTracker(t), t.TempDir()
	var warned []string
	o := Options{Config: c, Dir: dir, Trackers: trackers.Names(),
		Warn: func(text string) { warned = append(warned, text) }}
	ctx, stop := context.WithCancel(t.Context())
	o.Listen = func([]series.Series) rounds.Events {
		return rounds.Events{Log: func(event string, round int, _ any) {
			if event == "dpo_step" && round == 2 {
				stop()
			}
		}}
	}
	if err := train(ctx, o); ctx.Err() == nil || err == nil {
		t.Fatalf("the run was not stopped: %v", err)
	}
	if server.Status != "KILLED" {
		t.Errorf("the status of a stopped run is %q", server.Status)
	}
	events := filepath.Join(dir, rundir.Events)
	b := testfile.Read(t, events)
	if err := os.WriteFile(events, b[:len(b)*3/4], 0o644); err != nil { // as after a loss of power
		t.Fatal(err)
	}

	s := mustOpen(t, Options{Dir: dir, Resume: true, Trackers: o.Trackers, Warn: o.Warn})
	if err := s.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, err := s.Evaluate(t.Context(), evaluator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !e.HasReference() {
		t.Fatal("no model was trained on the clients' own text")
	}
	s.Close()
	want := filed(t, dir)
	for _, r := range e.Results {
		if r.Key != "private" {
			want["downstream/accuracy/"+r.Key+"@2"], want["downstream/perplexity/"+r.Key+
				"@2"] = r.Accuracy, r.Perplexity
		}
	}
	if !maps.Equal(server.Values, want) || len(server.Twice) > 0 {
		for _, at := range slices.Sorted(maps.Keys(want)) {
			if v, ok := server.Values[at]; !ok || v != want[at] {
				t.Errorf("%s is %v, want %v", at, v, want[at])
			}
		}
		t.Errorf("%d values, want %d; twice: %q", len(server.Values), len(want), server.Twice)
	}
	if server.Status != "FINISHED" || len(warned) > 0 {
		t.Errorf("the status is %q, the warnings %q", server.Status, warned)
	}
	for _, name := range []string{"round", "generate", "dpo", "collect", "synthesize after round 2", "evaluate",
		"popri.guarantee", "popri.fid"} {
		if !bytes.Contains(server.Traced, []byte(name)) {
			t.Errorf("the trace lacks %q", name)
		}
	}
	for _, name := range []string{rundir.Synthetic, "rounds/0002/" + preference.StepsFile} {
		a, errA := os.ReadFile(filepath.Join(plain, name))
		b, errB := os.ReadFile(filepath.Join(dir, name))
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Errorf("%s differs from that of a run without trackers (%v, %v)", name, errA, errB)
		}
	}
}

// A preference training that is stopped and continues shows each step once.
func TestTrackedPrefer(t *testing.T) {
	w := testworld.Shared(t)
	dir := t.TempDir()
	pairs := filepath.Join(dir, "pairs.jsonl")
	var lines []map[string]string
	for i := range 12 {
		lines = append(lines, map[string]string{"prompt": fmt.Sprint("the cat ", i), "chosen": " sees",
			"rejected": " finds"})
	}
	if err := rows.WriteLines(pairs, lines); err != nil {
		t.Fatal(err)
	}
	server := newTracker(t)
	c := w.Config
	c.Optimizer.Epochs, c.Optimizer.Batch, c.DPO.EvalShare = 3, 4, 0.25
	o := standalone.Options{Config: c, Pairs: pairs, Out: filepath.Join(dir, "adapter"),
		Trackers: []string{"mlflow", "tensorboard"}}
	ctx, stop := context.WithCancel(t.Context())
	o.Step = func(m dpo.Metrics, _, _ int) {
		if m.Step == 4 {
			stop()
		}
	}
	if _, err := standalone.Train(ctx, o); err == nil {
		t.Fatal("the training was not stopped")
	}
	o.Resume, o.Step = true, nil
	if _, err := standalone.Train(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	steps := testfile.ReadLines[map[string]any](t, filepath.Join(o.Out, preference.StepsFile))
	for _, line := range steps {
		if at := fmt.Sprintf("loss@%v", line["step"]); server.Values[at] != line["loss"] {
			t.Errorf("%s is %v, want %v", at, server.Values[at], line["loss"])
		}
	}
	newest := server.Newest
	if len(server.Twice) > 0 || server.Status != "FINISHED" ||
		newest["loss"] != int64(len(steps)) || newest["eval_loss"] != int64(len(steps)) {
		t.Errorf("twice: %q, status %s, newest %v", server.Twice, server.Status, server.Newest)
	}
}
