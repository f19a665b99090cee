package dpo

import (
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/lora"
	"popri/model/lm"
	"popri/testkit/golden"
	"popri/trainer"
)

// TestGoldenSync: a reference that follows the policy, step by step as TRL's function mixes adapters.
func TestGoldenSync(t *testing.T) {
	root := golden.Folder(t, "dpo-sync")
	source := filepath.Join(filepath.Dir(root), "dpo", "trace-gpt2")
	var k struct {
		Beta      float64
		Rate      float64 `json:"learning_rate"`
		Batch     int
		Every     int     `json:"ref_model_sync_steps"`
		Alpha     float64 `json:"ref_model_mixup_alpha"`
		MaxNorm   float64 `json:"max_grad_norm"`
		Pairs     int
		Steps     []Metrics
		Reference map[string][]float64
	}
	golden.ReadJSON(t, filepath.Join(root, "trace.json"), &k)
	m, err := lm.Load(filepath.Join(source, "model"), lm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	a, err := lora.Load(filepath.Join(source, "adapter-init"), m)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Free()
	tr, err := NewTuner(m, a, Options{Loss: testLoss(t, "sigmoid", Params{Beta: k.Beta}), Beta: k.Beta,
		BatchPairs: k.Batch, MicroPairs: 3, Schedule: trainer.Constant(k.Rate), AdamW: trainer.AdamW{Beta1: 0.9,
			Beta2: 0.999, Epsilon: 1e-8, MaxNorm: k.MaxNorm}})
	if err != nil {
		t.Fatal(err)
	}
	pairs := referenced(t, tr, readPairs(t, filepath.Join(source, "pairs.jsonl"))[:k.Pairs])
	whole := func(int) (places []int) { return everyPair(pairs) }
	f := &Fit{Tuner: tr, Pairs: pairs, Epochs: len(k.Steps) * k.Batch / k.Pairs, Order: whole,
		Sync: Sync{Steps: k.Every, Alpha: k.Alpha}}
	f.OnStep = func(got Metrics, done, _ int) {
		want := k.Steps[done-1]
		for what, pair := range map[string][2]float64{"loss": {got.Loss, want.Loss},
			"norm": {got.GradNorm, want.GradNorm}, "rewards/chosen": {got.RewardsChosen, want.RewardsChosen},
			"rewards/rejected": {got.RewardsRejected, want.RewardsRejected},
			"logps/chosen":     {got.LogpsChosen, want.LogpsChosen},
			"logps/rejected":   {got.LogpsRejected, want.LogpsRejected}} {
			if !(math.Abs(pair[0]-pair[1]) <= 2e-4*(1+math.Abs(pair[1])/10)) {
				t.Errorf("step %d: %s is %g, want %g", done, what, pair[0], pair[1])
			}
		}
		if done < len(k.Steps) {
			return
		}
		for i, name := range a.Names() {
			for j, end := range []string{".lora_A.weight", ".lora_B.weight"} {
				for at, want := range k.Reference["base_model.model."+name+end] {
					if x := f.reference.Tensors()[2*i+j].Host()[at]; !(math.Abs(float64(x)-want) <= 2e-5) {
						t.Errorf("the reference's %s%s begins with %g, want %g", name, end, x, want)
					}
				}
			}
		}
	}
	o, err := f.Run(t.Context())
	if err != nil || len(o.Steps) != len(k.Steps) {
		t.Fatalf("%d steps, %v", len(o.Steps), err)
	}
	golden.Checked(t, "dpo-sync", len(k.Steps))
}

// With α = 1, the reference is the policy after each mixing: nothing is rewarded then. A training that is interrupted
// ends with the same bits. Measurements have the reference of their update.
func TestSync(t *testing.T) {
	run := func(s Sync, dora bool, path string, stops int) (*Outcome, trainer.State) {
		tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 3e-2, 3)
		if dora {
			tr = doraTuner(t)
		}
		if s.Current {
			disturb(tr)
		}
		pairs := referenced(t, tr, testPairs(20, 5))
		if s.Current {
			if err := tr.reference(t.Context(), pairs, tr.Adapter); err != nil {
				t.Fatal(err)
			}
		}
		f := &Fit{Tuner: tr, Pairs: pairs[:16], Held: pairs[16:], Epochs: 5, Order: inOrder(16), EvalSteps: 1, Sync: s,
			Checkpoint: trainer.Checkpoint{Path: path, Key: "a"}}
		return interrupted(t, f, stops), tr.Optimizer.State().Clone()
	}
	for _, dora := range []bool{false, true} {
		o, _ := run(Sync{Steps: 2, Alpha: 1}, dora, "", 0)
		for i, step := range o.Steps {
			if zero := math.Abs(step.RewardsChosen)+math.Abs(step.RewardsRejected) < 1e-5; zero != (i%2 == 0) {
				t.Errorf("DoRA %v, update %d: rewards %g and %g", dora, i+1, step.RewardsChosen, step.RewardsRejected)
			}
			if zero := math.Abs(o.Evals[i].RewardsMargins) < 1e-5; zero != (i%2 == 1) {
				t.Errorf("DoRA %v, measurement %d: margin %g", dora, i+1, o.Evals[i].RewardsMargins)
			}
		}
	}
	for _, current := range []bool{false, true} {
		s := Sync{Steps: 3, Alpha: 0.6, Current: current}
		want, wantState := run(s, false, "", 0)
		if first := want.Steps[0]; math.Abs(first.RewardsChosen) > 1e-5 {
			t.Errorf("the first update rewards %g", first.RewardsChosen)
		}
		path := filepath.Join(t.TempDir(), "training.safetensors")
		run(s, false, path, 2)
		run(s, false, path, 3)
		run(s, false, path, 1)
		if got, state := run(s, false, path, 0); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(state, wantState) {
			t.Errorf("resumed %+v, whole %+v", got, want)
		}
		if kept, _ := run(Sync{Current: current}, false, "", 0); !reflect.DeepEqual(kept.Steps[:3], want.Steps[:3]) ||
			reflect.DeepEqual(kept.Steps[3], want.Steps[3]) {
			t.Error("the reference does not move after three updates, or earlier")
		}
	}
	tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 3e-2, 3)
	f := &Fit{Tuner: tr, Pairs: referenced(t, tr, testPairs(2, 1)), Epochs: 1, Order: inOrder(2),
		Sync: Sync{Steps: 1, Alpha: 1.5}}
	if _, err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "1.5") {
		t.Errorf("a share of 1.5 gives %v", err)
	}
}
