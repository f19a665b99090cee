package dpo

import (
	"math"
	"path/filepath"
	"reflect"
	"testing"

	"popri/model/tensor"
	"popri/trainer"
)

// dropoutTuner trains with a share of the adapter's inputs hidden.
func dropoutTuner(t *testing.T, share float64, micro int) *Tuner {
	t.Helper()
	tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 1e-2, micro)
	tr.Adapter.Config.Dropout, tr.Seed = share, 5
	disturb(tr)
	return tr
}

// The masks of a pair follow from the seed, the update and its place: not from passes, threads, computing blocks again,
// nor the place of a pair's row in its pass. Reference and evaluation have none.
func TestDropout(t *testing.T) {
	type result struct {
		Metrics Metrics
		State   trainer.State
	}
	run := func(share float64, seed uint64, micro, tokens, threads int, recompute bool) (r result) {
		defer tensor.SetThreads(tensor.Threads())
		tensor.SetThreads(threads)
		tr := dropoutTuner(t, share, micro)
		tr.Seed, tr.MicroTokens, tr.Model.Recompute = seed, tokens, recompute
		pairs := referenced(t, tr, testPairs(8, 4))
		for range 2 {
			var err error
			if r.Metrics, err = tr.Step(pairs); err != nil {
				t.Fatal(err)
			}
		}
		r.State = tr.Optimizer.State().Clone()
		return r
	}
	want := run(0.2, 5, 3, 0, 2, false)
	if !reflect.DeepEqual(run(0.2, 5, 3, 0, 1, false), want) {
		t.Error("the bits depend on the threads")
	}
	near := func(a, b result) bool {
		worst := math.Abs(a.Metrics.GradNorm-b.Metrics.GradNorm) + math.Abs(a.Metrics.Loss-b.Metrics.Loss)
		for i, m := range a.State.M {
			for k, x := range m {
				worst = max(worst, math.Abs(float64(x-b.State.M[i][k])))
			}
		}
		return worst < 1e-4
	}
	for what, other := range map[string]result{"passes": run(0.2, 5, 1, 0, 2, false),
		"order in passes":                run(0.2, 5, 8, 100, 2, false),
		"blocks that are computed again": run(0.2, 5, 3, 0, 2, true)} {
		if !near(other, want) {
			t.Errorf("%s change the masks", what)
		}
	}
	for what, other := range map[string]result{"no dropout": run(0, 5, 3, 0, 2, false),
		"another seed": run(0.2, 6, 3, 0, 2, false)} {
		if near(other, want) {
			t.Errorf("%s gives the same", what)
		}
	}
	if !reflect.DeepEqual(run(0, 5, 3, 0, 2, false), run(0, 6, 3, 0, 2, false)) {
		t.Error("the seed changes a training without dropout")
	}

	off, on := dropoutTuner(t, 0, 4), dropoutTuner(t, 0.5, 4)
	pairs, same := referenced(t, off, testPairs(9, 4)), referenced(t, on, testPairs(9, 4))
	a, err := off.Evaluate(t.Context(), pairs)
	if err != nil {
		t.Fatal(err)
	}
	b, err := on.Evaluate(t.Context(), same)
	if err != nil || !reflect.DeepEqual(a, b) || !reflect.DeepEqual(pairs, same) {
		t.Errorf("dropout changes the reference or the evaluation: %+v, %+v, %v", a, b, err)
	}
}

// A training with dropout that is stopped after each update ends with the same bits.
func TestDropoutResumes(t *testing.T) {
	run := func(path string, stops int) (*Outcome, trainer.State) {
		tr := dropoutTuner(t, 0.3, 3)
		pairs := referenced(t, tr, testPairs(12, 5))
		f := &Fit{Tuner: tr, Pairs: pairs, Epochs: 2, Order: inOrder(12),
			Checkpoint: trainer.Checkpoint{Path: path, Key: "a"}}
		return interrupted(t, f, stops), tr.Optimizer.State().Clone()
	}
	want, wantState := run("", 0)
	path := filepath.Join(t.TempDir(), "training.safetensors")
	run(path, 1)
	run(path, 1)
	if got, state := run(path, 0); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(state, wantState) ||
		got.Updates != 4 {
		t.Errorf("resumed %+v, whole %+v", got, want)
	}
}
