package run_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"popri/configs"
	"popri/run"
	"popri/run/evaluator"
)

// A whole run on the embedded default, so small that it takes seconds: one round, four texts, and the small model
// trained on them for two steps.
func Example() {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	c, err := configs.Load(configs.LoadOptions{Preset: "demo", Set: []string{"trainer.rounds=1", "generate.prompts=4",
		"generate.samples=5", "generate.max_new_tokens=16", "synthetic.texts=4", "synthetic.public_texts=0",
		"synthetic.mix=fixed", "downstream.steps=2", "eval.reference_private=false"}})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	s, err := run.Open(ctx, run.Options{Config: *c, Dir: filepath.Join(dir, "small")})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	if err := s.Train(ctx); err != nil {
		panic(err)
	}
	results, err := s.Evaluate(ctx, evaluator.Options{}, "popri")
	if err != nil {
		panic(err)
	}
	for _, r := range results.Results {
		fmt.Printf("%s: %d texts\n", r.Key, r.Texts)
	}
	// Output:
	// public: 0 texts
	// popri: 4 texts
}
