package dpo

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"popri/model/tensor"
	"popri/trainer"
)

// A loss that sorts sorts the whole update: passes and threads change nothing but rounding. An interrupted
// training ends with the same bits.
func TestBatchLosses(t *testing.T) {
	for _, name := range []string{"aot", "aot_unpaired"} {
		step := func(micro, threads int) (Metrics, []float64) {
			defer tensor.SetThreads(tensor.Threads())
			tensor.SetThreads(threads)
			tr := testTuner(t, testLoss(t, name, Params{Beta: 0.5, LabelSmoothing: 0.1, SFT: 0.3}), 1e-2, micro)
			disturb(tr)
			pairs := referenced(t, tr, testPairs(8, 3))
			m, err := tr.Step(t.Context(), pairs)
			if err != nil {
				t.Fatal(err)
			}
			var moments []float64
			for _, list := range tr.Optimizer.State().M {
				for _, x := range list {
					moments = append(moments, float64(x))
				}
			}
			return m, moments
		}
		want, moments := step(8, 2)
		for _, micro := range []int{1, 3} {
			got, other := step(micro, 2)
			if !(math.Abs(got.Loss-want.Loss) < 1e-5) ||
				!(math.Abs(got.GradNorm-want.GradNorm) < 1e-5*(1+want.GradNorm)) {
				t.Errorf("%s, %d pairs at a time: loss %g and norm %g, want %g and %g", name, micro,
					got.Loss, got.GradNorm, want.Loss, want.GradNorm)
			}
			for i, x := range other {
				if !(math.Abs(x-moments[i]) < 1e-5) {
					t.Fatalf("%s, %d pairs at a time: moment %d is %g, want %g", name, micro, i, x,
						moments[i])
				}
			}
		}
		one, oneMoments := step(3, 1)
		two, twoMoments := step(3, 2)
		if one != two || !slices.Equal(oneMoments, twoMoments) {
			t.Errorf("%s: the bits depend on the threads", name)
		}
	}
	run := func(path string, stops int) (*Outcome, trainer.State) {
		tr := testTuner(t, testLoss(t, "aot", Params{Beta: 0.5}), 1e-2, 3)
		disturb(tr)
		pairs := referenced(t, tr, testPairs(20, 5))
		f := &Fit{Tuner: tr, Pairs: pairs[:16], Held: pairs[16:], Epochs: 2, Order: inOrder(16),
			Checkpoint: trainer.Checkpoint{Path: path, Key: "a"}}
		return interrupted(t, f, stops), tr.Optimizer.State().Clone()
	}
	want, wantState := run("", 0)
	path := filepath.Join(t.TempDir(), "training.safetensors")
	run(path, 1)
	run(path, 2)
	if got, state := run(path, 0); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(state, wantState) {
		t.Errorf("resumed %+v, whole %+v", got, want)
	}
}

// TestTogetherInterrupted: the further forward pass ends when its caller does.
func TestTogetherInterrupted(t *testing.T) {
	tr := testTuner(t, testLoss(t, "aot", Params{Beta: 0.5}), 1e-2, 3)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := tr.Step(ctx, referenced(t, tr, testPairs(4, 5))); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was stopped", err)
	}
}
