package vllm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/datasets/clients"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/sampling/vllm"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/run"
	"popri/run/reporting"
	"popri/testkit/testmodel"
	"popri/testkit/testworld"
)

func TestMain(m *testing.M) { os.Exit(testworld.Main(m)) }

// train runs one session to its end.
func train(ctx context.Context, o run.Options) error {
	s, err := run.Open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Train(ctx)
}

// imitation starts a server with vLLM's forms that holds the generator in dir.
func imitation(t *testing.T, dir string) *vllm.Imitation {
	t.Helper()
	m := testmodel.Load(t, dir, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	t.Cleanup(m.Free)
	return vllm.Imitate(t, m)
}

// TestSamplesOnAServer: a run whose samples a server draws proves each adapter, continues when the server starts again in
// the middle of a round, says so in its report, and sends no private text.
func TestSamplesOnAServer(t *testing.T) {
	w := testworld.Shared(t)
	f := imitation(t, w.Generator)
	c := w.Config
	c.Generate.Engine = "vllm:" + f.URL
	f.ForgetAt = c.Generate.Prompts + 5 // in round 2
	dir := t.TempDir()
	var proofs int
	o := run.Options{Config: c, Dir: dir, Events: rounds.Events{Log: func(event string, _ int, _ any) {
		if event == "engine" {
			proofs++
		}
	}}}
	if err := train(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	// Two rounds, one of them twice, and the synthetic set.
	seen := f.Seen()
	if proofs != 4 || len(seen.Adapters) != 4 || seen.Loaded != 0 {
		t.Errorf("%d proofs, adapters %q, %d still loaded", proofs, seen.Adapters, seen.Loaded)
	}
	product, err := rows.Read[sampling.Row](filepath.Join(dir, rundir.Synthetic))
	if err != nil || len(sampling.Texts(product)) < c.Synthetic.Texts/2 {
		t.Errorf("%d texts in the synthetic set (%v)", len(product), err)
	}
	page, err := reporting.Of(dir)
	if err != nil || !strings.Contains(strings.Join(page.Notes, "\n"), "generate.engine="+c.Generate.Engine) {
		t.Errorf("the report does not say who drew the samples: %q (%v)", page.Notes, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".tmp-*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left (%v)", left, err)
	}
	noPrivateText(t, w.Private, w.Generator, seen)
}

// noPrivateText fails the test if a server was sent a text of a client, in words or as tokens.
func noPrivateText(t *testing.T, private, generator string, seen vllm.Seen) {
	t.Helper()
	tok := testmodel.Tokenizer(t, generator)
	population, err := clients.Read(private)
	if err != nil {
		t.Fatal(err)
	}
	sent := strings.Join(seen.Bodies, "\n")
	for _, p := range seen.Prompts {
		sent += "\n" + tok.Decode(p, true)
	}
	if !strings.Contains(sent, "at noon") {
		t.Error("no public text was sent, so the test tests nothing")
	}
	for _, split := range []clients.Split{clients.Train, clients.Validation, clients.Test} {
		for _, text := range clients.Texts(population.Split(split)) {
			if strings.Contains(sent, text) {
				t.Fatalf("a client's text was sent: %q", text)
			}
		}
	}
}

// TestStoredSamplesNeedNoServer: a run that was interrupted after its samples continues without the server until the next
// ones are drawn.
func TestStoredSamplesNeedNoServer(t *testing.T) {
	w := testworld.Shared(t)
	f := imitation(t, w.Generator)
	c := w.Config
	c.Generate.Engine, c.Trainer.Rounds = "vllm:"+f.URL, 1
	dir := t.TempDir()
	var stages []string
	until := func(name string, o run.Options) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o.Events.StageBegin = func(s rounds.Stage) {
			if stages = append(stages, s.Name); strings.HasPrefix(s.Name, name) {
				cancel()
			}
		}
		return train(ctx, o)
	}
	if err := until("dpo", run.Options{Config: c, Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.Close()
	stages = nil
	if err := until("synthesize", run.Options{Dir: dir, Resume: true}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(rundir.Round(dir, 1), rundir.Metrics)); err != nil {
		t.Errorf("round 1 did not end without the server: %v; stages %q", err, stages)
	}
}
