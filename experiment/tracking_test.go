package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"popri/dpo"
	"popri/internal/rows"
	"popri/internal/testworld"
	"popri/preference"
	"popri/run/evaluator"
	"popri/rundir"
	"popri/series"
	"popri/trackers"
	"popri/trainer"
)

// shownServer is an MLflow server that holds one run.
type shownServer struct {
	mu     sync.Mutex
	values map[string]float64 // by key and step
	newest map[string]int64
	twice  []string
	status string
	traced []byte
}

func (s *shownServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body struct {
		Status  string
		Metrics []struct {
			Key   string
			Value float64
			Step  int64
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&body) // a GET has none
	if body.Status != "" {
		s.status = body.Status
	}
	for _, m := range body.Metrics {
		at := fmt.Sprintf("%s@%d", m.Key, m.Step)
		if _, ok := s.values[at]; ok {
			s.twice = append(s.twice, at)
		}
		s.values[at], s.newest[m.Key] = m.Value, m.Step
	}
	var newest []map[string]any
	for key, step := range s.newest {
		newest = append(newest, map[string]any{"key": key, "step": step})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"experiment": map[string]any{"experiment_id": "1"},
		"run": map[string]any{"info": map[string]any{"run_id": "r"}, "data": map[string]any{"metrics": newest}}})
}

func showing(t *testing.T) *shownServer {
	s := &shownServer{values: map[string]float64{}, newest: map[string]int64{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("MLFLOW_TRACKING_URI", server.URL)
	traces := httptest.NewServer(http.HandlerFunc(s.spans))
	t.Cleanup(traces.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", traces.URL)
	return s
}

// spans keeps what a collector of traces is sent; package trackers tests what it says.
func (s *shownServer) spans(_ http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traced = append(s.traced, b...)
}

// filed is what the files of a run say.
func filed(t *testing.T, dir string) map[string]float64 {
	t.Helper()
	want := map[string]float64{}
	add := func(key string, step any, v any) {
		if f, ok := v.(float64); ok {
			want[fmt.Sprintf("%s@%v", key, step)] = f
		}
	}
	rounds, err := trainer.ReadMetrics(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rounds {
		lines, err := rows.ReadLines[map[string]any](filepath.Join(rundir.Round(dir, r.Number), preference.StepsFile))
		if err != nil {
			t.Fatal(err)
		}
		before := lines[0]["step"].(float64) - 1
		for _, line := range lines {
			for key, v := range line {
				if key != "step" {
					add(key, line["step"], v)
				}
			}
		}
		evals, err := rows.ReadLines[map[string]any](filepath.Join(rundir.Round(dir, r.Number), preference.EvalsFile))
		if err != nil {
			t.Fatal(err)
		}
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

// A run that is stopped in the middle of its updates, loses lines of its event log and goes on shows each figure of its
// files once, and ends with the same bytes as one that nobody watches.
func TestTrackedRun(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	c.Trainer.Rounds, c.DPO.EvalShare, c.Eval.ReferencePrivate = 2, 0.3, true
	plain := t.TempDir()
	if err := train(t.Context(), Options{Config: c, Dir: plain}); err != nil {
		t.Fatal(err)
	}
	server, dir := showing(t), t.TempDir()
	var warned []string
	o := Options{Config: c, Dir: dir, Trackers: trackers.Names(), Warn: func(text string) { warned = append(warned, text) }}
	ctx, stop := context.WithCancel(t.Context())
	o.Listen = func([]series.Series) trainer.Events {
		return trainer.Events{Log: func(event string, round int, _ any) {
			if event == trackers.DPOStep && round == 2 {
				stop()
			}
		}}
	}
	if err := train(ctx, o); ctx.Err() == nil || err == nil {
		t.Fatalf("the run was not stopped: %v", err)
	}
	if server.status != "KILLED" {
		t.Errorf("the status of a stopped run is %q", server.status)
	}
	events := filepath.Join(dir, rundir.Events)
	b, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(events, b[:len(b)*3/4], 0o644); err != nil { // as after a loss of power
		t.Fatal(err)
	}

	s, err := Open(t.Context(), Options{Dir: dir, Resume: true, Trackers: o.Trackers, Warn: o.Warn})
	if err != nil {
		t.Fatal(err)
	}
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
			want["downstream/accuracy/"+r.Key+"@2"], want["downstream/perplexity/"+r.Key+"@2"] = r.Accuracy, r.Perplexity
		}
	}
	if !maps.Equal(server.values, want) || len(server.twice) > 0 {
		for _, at := range slices.Sorted(maps.Keys(want)) {
			if v, ok := server.values[at]; !ok || v != want[at] {
				t.Errorf("%s is %v, want %v", at, v, want[at])
			}
		}
		t.Errorf("%d values, want %d; twice: %q", len(server.values), len(want), server.twice)
	}
	if server.status != "FINISHED" || len(warned) > 0 {
		t.Errorf("the status is %q, the warnings %q", server.status, warned)
	}
	for _, name := range []string{"round", "generate", "dpo", "collect", "synthesize after round 2", "evaluate", "popri.guarantee", "popri.fid"} {
		if !bytes.Contains(server.traced, []byte(name)) {
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

// A preference training that is stopped and goes on shows each step once.
func TestTrackedPrefer(t *testing.T) {
	w := testworld.Shared(t)
	dir := t.TempDir()
	pairs := filepath.Join(dir, "pairs.jsonl")
	var lines []map[string]string
	for i := range 12 {
		lines = append(lines, map[string]string{"prompt": fmt.Sprint("the cat ", i), "chosen": " sees", "rejected": " finds"})
	}
	if err := rows.WriteLines(pairs, lines); err != nil {
		t.Fatal(err)
	}
	server := showing(t)
	c := w.Config
	c.DPO.Epochs, c.DPO.BatchPairs, c.DPO.EvalShare = 3, 4, 0.25
	o := PreferOptions{Config: c, Pairs: pairs, Out: filepath.Join(dir, "adapter"), Trackers: []string{"mlflow", "tensorboard"}}
	ctx, stop := context.WithCancel(t.Context())
	o.Step = func(m dpo.Metrics, _, _ int) {
		if m.Step == 4 {
			stop()
		}
	}
	if _, err := Prefer(ctx, o); err == nil {
		t.Fatal("the training was not stopped")
	}
	o.Resume, o.Step = true, nil
	if _, err := Prefer(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	steps, err := rows.ReadLines[map[string]any](filepath.Join(o.Out, StepsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range steps {
		if at := fmt.Sprintf("loss@%v", line["step"]); server.values[at] != line["loss"] {
			t.Errorf("%s is %v, want %v", at, server.values[at], line["loss"])
		}
	}
	newest := server.newest
	if len(server.twice) > 0 || server.status != "FINISHED" ||
		newest["loss"] != int64(len(steps)) || newest["eval_loss"] != int64(len(steps)) {
		t.Errorf("twice: %q, status %s, newest %v", server.twice, server.status, server.newest)
	}
}
