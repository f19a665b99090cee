package main

import (
	"path/filepath"
	"testing"

	"popri/accountant/ledger"
	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/lora"
	"popri/model/lm"
	"popri/model/shipped"
)

// TestLoop: the loop charges one release a round within the budget, and leaves an adapter that fits the generator.
func TestLoop(t *testing.T) {
	dir := t.TempDir()
	loop(t.Context(), dir)
	budget, entries, err := ledger.Read(filepath.Join(dir, "ledger.jsonl"))
	if err != nil || len(entries) != rounds {
		t.Fatalf("%d charges (%v)", len(entries), err)
	}
	if spent, err := ledger.Spent(budget, entries); err != nil || !(spent > 0.99*epsilon && spent <= epsilon) {
		t.Errorf("%g is spent (%v)", spent, err)
	}
	for i, e := range entries {
		r, err := release.Read(filepath.Join(dir, []string{"round-1", "round-2"}[i], release.File))
		if err != nil || r.Hash != e.ReleaseHash || len(r.Sum) != prompts*samples {
			t.Errorf("round %d: %v", i+1, err)
		}
	}
	model := must(lm.Load(must(shipped.Dir(shipped.Generator)), lm.Options{}))
	defer model.Free()
	adapter, err := lora.Load(filepath.Join(dir, "adapter"), model)
	if err != nil {
		t.Fatal(err)
	}
	adapter.Free()
	if rundir.Exists(dir) {
		t.Error("the loop leaves a run's folder")
	}
}
