package dpo

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/model/tensor"
	"popri/trainer"
)

// A loss that sorts sorts the whole update: passes and threads change nothing but rounding, with and without dropout.
// An interrupted training ends with the same bits.
func TestBatchLosses(t *testing.T) {
	for _, name := range []string{"aot", "aot_unpaired"} {
		for _, share := range []float64{0, 0.2} {
			step := func(micro, threads int) (Metrics, []float64) {
				defer tensor.SetThreads(tensor.Threads())
				tensor.SetThreads(threads)
				tr := dropoutTuner(t, share, micro)
				tr.Loss = testLoss(t, name, Params{Beta: 0.5, LabelSmoothing: 0.1, SFT: 0.3})
				pairs := referenced(t, tr, testPairs(8, 3))
				m, err := tr.Step(pairs)
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
					t.Errorf("%s, dropout %g, %d pairs at a time: loss %g and norm %g, want %g and %g", name, share,
						micro, got.Loss, got.GradNorm, want.Loss, want.GradNorm)
				}
				for i, x := range other {
					if !(math.Abs(x-moments[i]) < 1e-5) {
						t.Fatalf("%s, dropout %g, %d pairs at a time: moment %d is %g, want %g", name, share, micro, i,
							x, moments[i])
					}
				}
			}
			one, oneMoments := step(3, 1)
			two, twoMoments := step(3, 2)
			if one != two || !slices.Equal(oneMoments, twoMoments) {
				t.Errorf("%s, dropout %g: the bits depend on the threads", name, share)
			}
		}
	}
	run := func(path string, stops int) (*Outcome, trainer.State) {
		tr := dropoutTuner(t, 0.1, 3)
		tr.Loss = testLoss(t, "aot", Params{Beta: 0.5})
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

// Weights by the policy are constants: the gradient of an update is that of its pairs, each with its weight.
func TestWeighting(t *testing.T) {
	tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 1e-2, 8)
	pairs := referenced(t, tr, testPairs(5, 6))
	disturb(tr)
	var want []float64
	loss := 0.0
	for _, p := range pairs {
		weight := 0.0
		tr.Weighting = true
		if err := tr.logProbs(t.Context(), []Pair{p}, always(tr.Adapter),
			func(_ int, x logProb) { weight = x.weight }); err != nil {
			t.Fatal(err)
		}
		// Per token, ln p is at most 0 and ln Σ p² at least −ln V.
		if !(weight > 0 && weight < testVocab*testVocab) || weight == 1 {
			t.Errorf("a weight is %g", weight)
		}
		tr.Weighting = false
		l, g := gradient(t, tr, []Pair{p})
		loss += weight * l / 5
		if want == nil {
			want = make([]float64, len(g))
		}
		for i, x := range g {
			want[i] += weight * x / 5
		}
	}
	tr.Weighting = true
	got, g := gradient(t, tr, pairs)
	if math.Abs(got-loss) > 1e-5 {
		t.Errorf("the loss is %g, want %g", got, loss)
	}
	for i, x := range g {
		if math.Abs(x-want[i]) > 1e-5*(1+math.Abs(want[i])) {
			t.Fatalf("gradient %d is %g, want %g", i, x, want[i])
		}
	}
	e, err := tr.Evaluate(t.Context(), pairs)
	if err != nil || math.Abs(e.Loss-loss) > 1e-5 {
		t.Errorf("the measured loss is %g, want %g: %v", e.Loss, loss, err)
	}
	o := tr.Options
	o.Loss = testLoss(t, "aot", Params{Beta: 1})
	if _, err := NewTuner(tr.Model, tr.Adapter, o); err == nil || !strings.Contains(err.Error(), "sorts") {
		t.Errorf("weights with a loss that sorts give %v", err)
	}
}
