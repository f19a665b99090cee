package lora

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/numeric"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/testkit/golden"
	"popri/testkit/goldentensor"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
	"popri/trainer"
)

// distance is the largest difference of two tensors over the rows where mask is 1.
func distance(s *tensor.Scope, got, want tensor.Tensor, mask []int64, width int) float64 {
	g, w := s.Float32s(got), s.Float32s(want)
	if len(g) != len(w) {
		return math.Inf(1)
	}
	worst := 0.0
	for i := range g {
		if mask == nil || mask[i/width] == 1 {
			d := math.Abs(float64(g[i] - w[i]))
			if math.IsNaN(d) {
				return d
			}
			worst = math.Max(worst, d)
		}
	}
	return worst
}

func supportedModel(dir string) bool {
	m, err := lm.Load(dir, lm.Options{})
	if err != nil {
		return false
	}
	m.Free()
	return true
}

func TestGoldenPEFT(t *testing.T) {
	root := golden.Root(t)
	var index struct {
		Adapters []struct {
			Name, Base string
			Refused    *string              `json:"refused_because"`
			LogitsAt   []int64              `json:"logits_at"`
			MergedOf   string               `json:"merged_weight_of"`
			Modules    map[string][]float64 `json:"modules"`
		}
	}
	golden.ReadJSON(t, filepath.Join(root, "peft", "index.json"), &index)
	for _, entry := range index.Adapters {
		t.Run(entry.Name, func(t *testing.T) {
			dir := filepath.Join(root, "peft", entry.Name)
			if entry.Refused != nil {
				raw := testfile.Read(t, filepath.Join(dir, ConfigFile))
				c, err := parseConfig(raw)
				if strings.HasPrefix(*entry.Refused, "use_dora") { // a folder of cases that is older than DoRA here
					if err != nil || !c.DoRA {
						t.Errorf("DoRA is refused: %v", err)
					}
					return
				}
				if err == nil {
					t.Fatalf("loaded, although %s cannot be represented", *entry.Refused)
				}
				if name := strings.FieldsFunc(*entry.Refused,
					func(r rune) bool { return !(r == '_' || r >= 'a' && r <= 'z') })[0]; !strings.Contains(err.Error(),
					name) {
					t.Errorf("%q does not name %s", err, name)
				}
				golden.Checked(t, "peft/"+entry.Name, 1)
				return
			}
			base := filepath.Join(root, "models", entry.Base)
			if !supportedModel(base) && golden.Unbuilt(t, "peft/"+entry.Name) {
				return
			}
			m := testmodel.Load(t, base, lm.Options{})
			defer m.Free()
			a := load(t, dir, m)
			if len(a.Modules) != len(entry.Modules) {
				t.Errorf("%d modules, want %d", len(a.Modules), len(entry.Modules))
			}
			for name, want := range entry.Modules {
				p := a.Modules[name]
				if p == nil || float64(p.Rank) != want[0] || p.Alpha != want[1] || math.Abs(p.Scale-want[2]) > 1e-6 {
					t.Errorf("%s: %+v, want rank, alpha, scale %v", name, p, want)
				}
			}
			// What is saved is read back to the same numbers.
			again := t.TempDir()
			if err := a.Save(again); err != nil {
				t.Fatal(err)
			}
			b := load(t, again, m)
			merged := merge(t, a, m)
			c := goldentensor.Open(t, filepath.Join(dir, "cases.safetensors"))
			err := tensor.Run(func(s *tensor.Scope) error {
				in := lm.Input{IDs: c.Load(s, "input_ids"), Positions: c.Load(s, "position_ids")}
				mask := s.Int64s(c.Load(s, "attention_mask"))
				shape := in.IDs.Shape()
				n := shape[1]
				allowed := make([]bool, shape[0]*n*n)
				for b := range shape[0] {
					for r := range n {
						for col := range r + 1 {
							allowed[(b*n+r)*n+col] = mask[b*n+col] == 1
						}
					}
				}
				in.Mask = s.FromBools(allowed, shape[0], 1, n, n)
				at := s.FromInt64(entry.LogitsAt, int64(len(entry.LogitsAt)))
				seen := s.Int64s(s.IndexSelect(c.Load(s, "attention_mask"), 1, at))
				check := func(what string, m *lm.Model, adapter lm.Adapter) {
					hidden := m.Hidden(s, in, adapter)
					got := s.IndexSelect(m.Logits(s, hidden), 1, at)
					if d := distance(s, got, c.Load(s, "logits_"+what), seen, m.Config.Vocab); !(d <= 1e-4) {
						t.Errorf("logits %s differ by %g", what, d)
					}
					if what == "on" {
						flat := s.Reshape(s.Narrow(hidden, 1, 0, n-1), -1, int64(m.Config.Hidden))
						next := numeric.Convert[int32](s.Int64s(s.Narrow(in.IDs, 1, 1, n-1)))
						lp := s.FromFloat32(s.NewLogProbs(m.Logits(s, flat), next, false, false).Values, int64(len(next)))
						both := []int64{}
						for i := range mask {
							if int64(i)%n > 0 {
								both = append(both, mask[i]*mask[i-1])
							}
						}
						if d := distance(s, lp, s.Reshape(s.Narrow(c.Load(s, "logprobs_on"), 1, 1, n-1), -1), both,
							1); !(d <= 5e-5) {
							t.Errorf("log-probabilities differ by %g", d)
						}
					}
				}
				check("off", m, nil)
				check("on", m, a)
				check("on", m, b)
				check("merged", merged, nil)
				if d := distance(s, merged.Linears()[entry.MergedOf].Weight(), c.Load(s, "merged_weight"), nil,
					1); !(d <= 1e-6) {
					t.Errorf("the merged weight differs by %g", d)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			golden.Checked(t, "peft/"+entry.Name, 1)
		})
	}
}

func TestGoldenTrain(t *testing.T) {
	root := golden.Root(t)
	folders, err := os.ReadDir(filepath.Join(root, "train"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			dir := filepath.Join(root, "train", f.Name())
			var k struct {
				Kind, Model string
				Optimizer   struct {
					LR     float64
					Betas  [2]float64
					Eps    float64
					WD     float64 `json:"weight_decay"`
					Clip   float64 `json:"clip_norm"`
					Kind   string  `json:"schedule"`
					Warmup int     `json:"warmup_steps"`
					Min    float64 `json:"min_lr"`
				}
				Trace []struct {
					Step     int
					LR, Loss float64
					GradNorm float64 `json:"grad_norm"`
				}
			}
			golden.ReadJSON(t, filepath.Join(dir, "trace.json"), &k)
			base := filepath.Join(root, "models", k.Model)
			if (k.Kind != "lora" && k.Kind != "full" || !supportedModel(base)) && golden.Unbuilt(t, "train/"+f.Name()) {
				return
			}
			m := testmodel.Load(t, base, lm.Options{})
			defer m.Free()
			var adapter lm.Adapter
			var a *Adapter
			var params []tensor.Tensor
			if k.Kind == "lora" {
				if a, err = Load(filepath.Join(dir, "initial"), m); err != nil {
					t.Fatal(err)
				}
				defer a.Free()
				adapter = a
				params, err = a.Trainable()
			} else {
				params, err = m.Trainable()
			}
			if err != nil {
				t.Fatal(err)
			}
			o := k.Optimizer
			schedule := trainer.Schedule{Kind: o.Kind, Peak: o.LR, Min: o.Min, Warmup: o.Warmup, Total: len(k.Trace)}
			optimizer := trainer.NewOptimizer(params,
				trainer.AdamW{Beta1: o.Betas[0], Beta2: o.Betas[1], Epsilon: o.Eps, WeightDecay: o.WD, MaxNorm: o.Clip})
			nextToken := trainer.NextToken{Model: m, Adapter: adapter, Optimizer: optimizer}
			c := goldentensor.Open(t, filepath.Join(dir, "batches.safetensors"))
			err = tensor.Run(func(s *tensor.Scope) error {
				ids, mask, labels := c.Load(s, "input_ids"), c.Load(s, "attention_mask"), c.Load(s, "labels")
				shape := ids.Shape()
				all, real, label := s.Int64s(ids), s.Int64s(mask), s.Int64s(labels)
				for step, want := range k.Trace {
					var rows []lm.Row
					for b := range shape[1] {
						var r lm.Row
						for col := range shape[2] {
							i := (int64(step)*shape[1]+b)*shape[2] + col
							if real[i] == 1 {
								r.Tokens = append(r.Tokens, int32(all[i]))
								r.Labels = append(r.Labels, int32(label[i]))
							}
						}
						rows = append(rows, r)
					}
					lr := schedule.At(step)
					if math.Abs(lr-want.LR) > 1e-12 {
						t.Errorf("step %d: rate %g, want %g", step, lr, want.LR)
					}
					loss, u, err := nextToken.Step(rows, lr)
					if err != nil {
						return err
					}
					if math.Abs(loss-want.Loss) > 1e-4 {
						t.Errorf("step %d: loss %g, want %g", step, loss, want.Loss)
					}
					if math.Abs(u.GradNorm-want.GradNorm) > 1e-4*want.GradNorm {
						t.Errorf("step %d: gradient norm %g, want %g", step, u.GradNorm, want.GradNorm)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			compareFinal(t, filepath.Join(dir, "final"), m, a)
			golden.Checked(t, "train/"+f.Name(), len(k.Trace))
		})
	}
}

// compareFinal compares the weights after training with the reference's.
func compareFinal(t *testing.T, dir string, m *lm.Model, a *Adapter) {
	t.Helper()
	err := tensor.Run(func(s *tensor.Scope) error {
		if a != nil {
			want, err := Load(dir, m)
			if err != nil {
				return err
			}
			defer want.Free()
			for name, p := range a.Modules {
				if d := math.Max(distance(s, p.A, want.Modules[name].A, nil, 1),
					distance(s, p.B, want.Modules[name].B, nil, 1)); !(d <= 2e-5) {
					t.Errorf("%s differs by %g", name, d)
				}
			}
			return nil
		}
		want, err := lm.Load(dir, lm.Options{})
		if err != nil {
			return err
		}
		defer want.Free()
		for _, name := range m.Names() {
			got, ref := m.Param(name), want.Param(name)
			if strings.HasSuffix(name, "c_attn.bias") {
				// The key bias has no gradient in theory: Adam turns its rounding noise into steps.
				h := int64(m.Config.Hidden)
				got = s.Cat(0, s.Narrow(got, 0, 0, h), s.Narrow(got, 0, 2*h, h))
				ref = s.Cat(0, s.Narrow(ref, 0, 0, h), s.Narrow(ref, 0, 2*h, h))
			}
			if d := distance(s, got, ref, nil, 1); !(d <= 2e-5) {
				t.Errorf("%s differs by %g", name, d)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestGoldenLayers: logits of models with merged adapters, with DoRA and without, by PEFT's layers; without DoRA and
// dropout, also logits with the adapter beside the model, and the adapter's gradients.
func TestGoldenLayers(t *testing.T) {
	root := golden.Folder(t, "peft-train")
	var index []struct{ Name, Base string }
	golden.ReadJSON(t, filepath.Join(root, "index.json"), &index)
	for _, entry := range index {
		t.Run(entry.Name, func(t *testing.T) {
			dir := filepath.Join(root, entry.Name)
			m := testmodel.Load(t, filepath.Join(filepath.Dir(root), "models", entry.Base), lm.Options{})
			defer m.Free()
			a := load(t, dir, m)
			merged := merge(t, a, m)
			c := goldentensor.Open(t, filepath.Join(dir, "cases.safetensors"))
			err := tensor.Run(func(s *tensor.Scope) error {
				in := lm.Input{IDs: c.Load(s, "ids")}
				got := merged.Logits(s, merged.Hidden(s, in, nil))
				if d := distance(s, got, c.Load(s, "logits"), nil, 1); !(d <= 1e-4) {
					t.Errorf("logits differ by %g", d)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var config struct {
				Dropout float64 `json:"lora_dropout"`
			}
			golden.ReadJSON(t, filepath.Join(dir, ConfigFile), &config)
			if !a.Config.DoRA && config.Dropout == 0 {
				goldenGradients(t, m, a, c)
			}
			golden.Checked(t, "peft-train/"+entry.Name, 1)
		})
	}
}

// goldenGradients checks logits with the adapter, the loss of both rows, and the gradients of the adapter.
func goldenGradients(t *testing.T, m *lm.Model, a *Adapter, c goldentensor.Cases) {
	t.Helper()
	params, err := a.Trainable()
	if err != nil {
		t.Fatal(err)
	}
	err = tensor.Run(func(s *tensor.Scope) error {
		ids := c.Load(s, "ids")
		if d := distance(s, m.Logits(s, m.Hidden(s, lm.Input{IDs: ids}, a)), c.Load(s, "logits"), nil, 1); !(d <= 1e-4) {
			t.Errorf("logits with the adapter differ by %g", d)
		}
		var rows []lm.Row
		width := int(ids.Size(1))
		for i, id := range s.Int64s(ids) {
			if i%width == 0 {
				rows = append(rows, lm.Row{})
			}
			last := &rows[len(rows)-1]
			last.Tokens = append(last.Tokens, int32(id))
		}
		loss, grads := m.LossGradients(s, rows, a, params, m.Counted(rows), lm.Dropout{})
		if want := float64(s.Float32s(c.Load(s, "loss"))[0]); !(math.Abs(loss-want) <= 1e-5*want) {
			t.Errorf("the loss is %g, want %g", loss, want)
		}
		for i, name := range a.Names() {
			for k, end := range []string{endA, endB} {
				if d := distance(s, grads[2*i+k], c.Load(s, "grad "+namePrefix+name+end), nil, 1); !(d <= 1e-5) {
					t.Errorf("the gradient of %s%s differs by %g", name, end, d)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
