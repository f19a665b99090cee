package dpo

import (
	"encoding/json"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/testkit/golden"
	"popri/testkit/goldentensor"
	"popri/testkit/testfile"
	"popri/trainer"
)

func TestGoldenLosses(t *testing.T) {
	type batch struct {
		PolicyChosen   []float64 `json:"policy_chosen_logps"`
		PolicyRejected []float64 `json:"policy_rejected_logps"`
		RefChosen      []float64 `json:"ref_chosen_logps"`
		RefRejected    []float64 `json:"ref_rejected_logps"`
		ChosenLen      []int     `json:"chosen_len"`
		RejectedLen    []int     `json:"rejected_len"`
		Name           string    `json:"name"`
	}
	var file struct {
		Batches json.RawMessage
		Cases   []struct {
			Batch, Loss    string
			Beta           float64
			LabelSmoothing float64   `json:"label_smoothing"`
			Losses         []float64 `json:"losses"`
			GradChosen     []float64 `json:"grad_policy_chosen"`
			GradRejected   []float64 `json:"grad_policy_rejected"`
			Mean           float64   `json:"mean_loss"`
			Accuracy       float64   `json:"rewards/accuracies"`
			Margins        float64   `json:"rewards/margins"`
		}
	}
	golden.ReadJSON(t, filepath.Join(golden.Root(t), "dpo", "losses.json"), &file)
	batches := map[string]batch{}
	if json.Unmarshal(file.Batches, &batches) != nil {
		var list []batch
		if err := json.Unmarshal(file.Batches, &list); err != nil {
			t.Fatal(err)
		}
		for _, b := range list {
			batches[b.Name] = b
		}
	}
	checked := map[string]int{}
	close := func(got, want float64) bool { return math.Abs(got-want) <= 1e-10*(1+math.Abs(want)) }
	for i, k := range file.Cases {
		l, err := NewLoss(k.Loss, Params{Beta: k.Beta, LabelSmoothing: k.LabelSmoothing})
		if k.Loss == "ipo_avg" {
			l, err = NewLoss("ipo", Params{Beta: k.Beta, LabelSmoothing: k.LabelSmoothing})
		}
		if err != nil {
			if golden.Unbuilt(t, "dpo/loss/"+k.Loss) {
				continue
			}
			t.Fatal(err)
		}
		b := batches[k.Batch]
		if len(b.PolicyChosen) == 0 {
			t.Fatalf("case %d: there is no batch %s", i, k.Batch)
		}
		var m Metrics
		n := float64(len(b.PolicyChosen))
		for j := range b.PolicyChosen {
			e := Example{b.PolicyChosen[j], b.PolicyRejected[j], b.RefChosen[j], b.RefRejected[j], b.ChosenLen[j],
				b.RejectedLen[j], 1, 1, 0}
			loss, gc, gr := l.Eval(e)
			if !close(loss, k.Losses[j]) || !close(gc, k.GradChosen[j]) || !close(gr, k.GradRejected[j]) {
				t.Errorf("case %d (%s, %s, beta %g) row %d: %g, %g, %g, want %g, %g, %g", i, k.Loss, k.Batch, k.Beta, j,
					loss, gc, gr, k.Losses[j], k.GradChosen[j], k.GradRejected[j])
			}
			m.add(loss/n, e, k.Beta, n)
		}
		if !close(m.Loss, k.Mean) || !close(m.RewardsMargins, k.Margins) || math.Abs(m.Accuracy-k.Accuracy) > 1e-12 {
			t.Errorf("case %d (%s, %s): mean %g margin %g accuracy %g, want %g, %g, %g", i, k.Loss, k.Batch, m.Loss,
				m.RewardsMargins, m.Accuracy, k.Mean, k.Margins, k.Accuracy)
		}
		checked[k.Loss]++
	}
	for name, n := range checked {
		golden.Checked(t, "dpo/loss/"+name, n)
	}
}

// TestGoldenLossesOfTRL: losses and gradients by TRL's own functions. Cases of other divergences than reverse_kl are of
// settings that are gone.
func TestGoldenLossesOfTRL(t *testing.T) {
	var file struct {
		Pairs []struct {
			PolicyChosen   []float32 `json:"policy_chosen"`
			PolicyRejected []float32 `json:"policy_rejected"`
			RefChosen      []float32 `json:"ref_chosen"`
			RefRejected    []float32 `json:"ref_rejected"`
		}
		Cases []struct {
			Loss, Divergence       string
			Beta, Gamma, Tolerance float64
			LabelSmoothing         float64 `json:"label_smoothing"`
			Losses                 []float64
			GradChosen             []float64 `json:"grad_chosen"`
			GradRejected           []float64 `json:"grad_rejected"`
		}
	}
	golden.ReadJSON(t, filepath.Join(golden.Folder(t, "dpo-losses"), "cases.json"), &file)
	example := func(i int) Example {
		p := file.Pairs[i]
		n, m := len(p.PolicyChosen), len(p.PolicyRejected)
		pair := []Pair{{Chosen: make([]int32, n), Rejected: make([]int32, m)}}
		pair[0].Rejected[0] = 1 // otherwise completions of the same length would be equal
		row := slices.Concat(slices.Repeat([]int{0}, n), slices.Repeat([]int{1}, m))
		policy := sums(&lm.Scored{LogProbs: slices.Concat(p.PolicyChosen, p.PolicyRejected), Row: row}, pair)
		pair[0].Reference = sums(&lm.Scored{LogProbs: slices.Concat(p.RefChosen, p.RefRejected), Row: row}, pair)[0]
		return pair[0].example(policy[0], means{chosenLen: float64(n)})
	}
	checked := map[string]int{}
	for _, k := range file.Cases {
		if k.Divergence != "reverse_kl" {
			continue
		}
		close := func(got, want float64) bool { return math.Abs(got-want) <= k.Tolerance*(1+math.Abs(want)) }
		l, err := NewLoss(k.Loss, Params{Beta: k.Beta, LabelSmoothing: k.LabelSmoothing, Gamma: k.Gamma})
		if err != nil {
			t.Fatal(err)
		}
		for i := range file.Pairs {
			loss, gc, gr := l.Eval(example(i))
			if !close(loss, k.Losses[i]) || !close(gc, k.GradChosen[i]) || !close(gr, k.GradRejected[i]) {
				t.Errorf("%s, beta %g, pair %d: %g, %g, %g, want %g, %g, %g", k.Loss, k.Beta, i, loss, gc, gr,
					k.Losses[i], k.GradChosen[i], k.GradRejected[i])
			}
		}
		checked["loss/"+k.Loss]++
	}
	for _, name := range slices.Sorted(maps.Keys(checked)) {
		golden.Checked(t, "dpo-losses/"+name, checked[name])
	}
}

// TestGoldenBatches: losses of all pairs together, by TRL's own functions. Its weighted cases are of a setting that is
// gone.
func TestGoldenBatches(t *testing.T) {
	root := golden.Folder(t, "dpo-losses")
	var pairs struct {
		Pairs []struct {
			PolicyChosen   []float32 `json:"policy_chosen"`
			PolicyRejected []float32 `json:"policy_rejected"`
			RefChosen      []float32 `json:"ref_chosen"`
			RefRejected    []float32 `json:"ref_rejected"`
		}
	}
	golden.ReadJSON(t, filepath.Join(root, "cases.json"), &pairs)
	type result struct {
		Loss           string
		Beta, Mean     float64
		LabelSmoothing float64   `json:"label_smoothing"`
		GradChosen     []float64 `json:"grad_chosen"`
		GradRejected   []float64 `json:"grad_rejected"`
	}
	var file struct{ Sorting []result }
	golden.ReadJSON(t, filepath.Join(root, "batch.json"), &file)
	sum := func(list []float32) (x float64) {
		for _, v := range list {
			x += float64(v)
		}
		return x
	}
	var list []Example
	for _, p := range pairs.Pairs {
		n, m := len(p.PolicyChosen), len(p.PolicyRejected)
		list = append(list, Example{sum(p.PolicyChosen), sum(p.PolicyRejected), sum(p.RefChosen), sum(p.RefRejected), n,
			m, 1, 1, 0})
	}
	near := func(k result, i int, what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-10*(1+math.Abs(want))) {
			t.Errorf("%s, beta %g, pair %d: %s is %g, want %g", k.Loss, k.Beta, i, what, got, want)
		}
	}
	for _, k := range file.Sorting {
		mean := 0.0
		for i, v := range evalAll(testLoss(t, k.Loss, Params{Beta: k.Beta, LabelSmoothing: k.LabelSmoothing}), list) {
			near(k, i, "the chosen gradient", v.GradChosen, k.GradChosen[i])
			near(k, i, "the rejected gradient", v.GradRejected, k.GradRejected[i])
			mean += v.Loss / float64(len(list))
		}
		near(k, 0, "the mean", mean, k.Mean)
	}
	golden.Checked(t, "dpo-losses/sorting", len(file.Sorting))
}

func readPairs(t *testing.T, path string) (pairs []Pair) {
	t.Helper()
	for _, p := range testfile.ReadLines[struct {
		Prompt   []int32 `json:"prompt_ids"`
		Chosen   []int32 `json:"chosen_ids"`
		Rejected []int32 `json:"rejected_ids"`
	}](t, path) {
		pairs = append(pairs, Pair{Prompt: p.Prompt, Chosen: p.Chosen, Rejected: p.Rejected})
	}
	return pairs
}

func TestGoldenTraces(t *testing.T) {
	root := filepath.Join(golden.Root(t), "dpo")
	traces, err := filepath.Glob(filepath.Join(root, "trace-*", "*", "trace.json"))
	if err != nil || len(traces) == 0 {
		t.Fatalf("no traces under %s: %v", root, err)
	}
	for _, path := range traces {
		dir := filepath.Dir(path)
		top := filepath.Dir(dir)
		name := filepath.Base(top) + "/" + filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			m, err := lm.Load(filepath.Join(top, "model"), lm.Options{})
			if err != nil {
				if strings.Contains(err.Error(), "is not supported") && golden.Unbuilt(t, "dpo/"+name) {
					return
				}
				t.Fatal(err)
			}
			defer m.Free()
			var k struct {
				Config struct {
					Loss           string
					Beta           float64
					LabelSmoothing float64 `json:"label_smoothing"`
					Steps, Batch   int
					Accumulate     int
					LR             float64 `json:"learning_rate"`
					Min            float64 `json:"min_lr"`
					Warmup         int     `json:"warmup_steps"`
					Schedule       string
					Adam           [3]float64
					WD             float64 `json:"weight_decay"`
					MaxNorm        float64 `json:"max_grad_norm"`
				}
				Steps []struct {
					Metrics
					LRApplied float64 `json:"lr_applied"`
				}
			}
			golden.ReadJSON(t, path, &k)
			var order struct{ Order []int }
			golden.ReadJSON(t, filepath.Join(top, "order.json"), &order)
			pairs := readPairs(t, filepath.Join(top, "pairs.jsonl"))
			a, err := lora.Load(filepath.Join(top, "adapter-init"), m)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Free()
			c := k.Config
			l, err := NewLoss(c.Loss, Params{Beta: c.Beta, LabelSmoothing: c.LabelSmoothing})
			if err != nil {
				t.Fatal(err)
			}
			options := Options{Loss: l, Beta: c.Beta, BatchPairs: c.Batch * c.Accumulate, MicroPairs: c.Batch,
				Schedule: trainer.Schedule{Kind: c.Schedule, Peak: c.LR, Min: c.Min, Warmup: c.Warmup, Total: c.Steps},
				AdamW: trainer.AdamW{Beta1: c.Adam[0], Beta2: c.Adam[1], Epsilon: c.Adam[2], WeightDecay: c.WD,
					MaxNorm: c.MaxNorm}}
			tr, err := NewTuner(m, a, options)
			if err != nil {
				t.Fatal(err)
			}
			if err := tr.Reference(t.Context(), pairs); err != nil {
				t.Fatal(err)
			}
			var logps map[string]map[string][]float64
			golden.ReadJSON(t, filepath.Join(dir, "logps.json"), &logps)
			near := func(step int, what string, got, want, tolerance float64) {
				t.Helper()
				if !(math.Abs(got-want) <= tolerance) {
					t.Errorf("step %d: %s is %g, want %g", step, what, got, want)
				}
			}
			for i, p := range pairs {
				near(0, "reference log-probability", p.Reference[0], logps["reference"]["chosen"][i], 5e-4)
				near(0, "reference log-probability", p.Reference[1], logps["reference"]["rejected"][i], 5e-4)
			}
			lossTolerance := 5e-5
			if c.Loss == "ipo" {
				lossTolerance = 5e-4
			}
			n := c.Batch * c.Accumulate
			for step, want := range k.Steps {
				var batch []Pair
				for _, i := range order.Order[step*n : (step+1)*n] {
					batch = append(batch, pairs[i])
				}
				// A save and a restore into a fresh trainer in the middle changes nothing.
				if step == len(k.Steps)/2 {
					state := filepath.Join(t.TempDir(), "optimizer.safetensors")
					if err := tr.Optimizer.Save(state); err != nil {
						t.Fatal(err)
					}
					options.BatchPairs = n
					fresh, err := NewTuner(m, a, options)
					if err != nil {
						t.Fatal(err)
					}
					if err := fresh.Optimizer.Load(state); err != nil {
						t.Fatal(err)
					}
					tr = fresh
				}
				logits := accumulated(t, tr, batch, c.Batch)
				got, err := tr.Step(t.Context(), batch)
				if err != nil {
					t.Fatal(err)
				}
				near(want.Step, "loss", got.Loss, want.Loss, lossTolerance)
				near(want.Step, "rewards/chosen", got.RewardsChosen, want.RewardsChosen, 5e-5)
				near(want.Step, "rewards/rejected", got.RewardsRejected, want.RewardsRejected, 5e-5)
				near(want.Step, "rewards/margins", got.RewardsMargins, want.RewardsMargins, 5e-5)
				near(want.Step, "rewards/accuracies", got.Accuracy, want.Accuracy, 1e-9)
				near(want.Step, "logps/chosen", got.LogpsChosen, want.LogpsChosen, 5e-4)
				near(want.Step, "logps/rejected", got.LogpsRejected, want.LogpsRejected, 5e-4)
				near(want.Step, "logits/chosen", logits[0], want.LogitsChosen, 5e-5)
				near(want.Step, "logits/rejected", logits[1], want.LogitsRejected, 5e-5)
				near(want.Step, "grad_norm", got.GradNorm, want.GradNorm, math.Max(1e-4, 5e-5*want.GradNorm))
				near(want.Step, "learning_rate", got.LearningRate, want.LRApplied, 1e-12)
			}
			err = tr.logProbs(t.Context(), pairs, tr.Adapter, func(i int, x [2]float64) {
				near(len(k.Steps), "final log-probability", x[0], logps["final"]["chosen"][i], 2e-3)
				near(len(k.Steps), "final log-probability", x[1], logps["final"]["rejected"][i], 2e-3)
			})
			if err != nil {
				t.Fatal(err)
			}
			final := t.TempDir()
			if err := a.Save(final); err != nil {
				t.Fatal(err)
			}
			goldentensor.NearFiles(t, filepath.Join(final, "adapter_model.safetensors"),
				filepath.Join(dir, "adapter-final", "adapter_model.safetensors"), 2e-5)
			golden.Checked(t, "dpo/"+name, len(k.Steps))
		})
	}
}

// accumulated are the mean logits of chosen and rejected as TRL logs them with gradient accumulation: the mean of the means
// of parts with a given number of pairs.
func accumulated(t *testing.T, tr *Tuner, pairs []Pair, size int) (mean [2]float64) {
	t.Helper()
	parts := 0.0
	for own := range slices.Chunk(pairs, size) {
		values, err := tr.together(t.Context(), own)
		if err != nil {
			t.Fatal(err)
		}
		var p part
		err = tensor.Run(func(s *tensor.Scope) error {
			_, err := tr.pass(own, values, everyPair(own), &p)(s)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var m Metrics
		m.whole([]part{p})
		mean[0] += m.LogitsChosen
		mean[1] += m.LogitsRejected
		parts++
	}
	mean[0] /= parts
	mean[1] /= parts
	return mean
}
