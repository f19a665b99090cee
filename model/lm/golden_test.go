package lm

import (
	"math"
	"path/filepath"
	"testing"

	"popri/internal/numeric"
	"popri/model/tensor"
	"popri/testkit/golden"
	"popri/testkit/goldentensor"
)

func columns(s *tensor.Scope, x tensor.Tensor, at []int64) tensor.Tensor {
	if len(at) == 0 {
		return x
	}
	return s.IndexSelect(x, 1, s.FromInt64(at, int64(len(at))))
}

// maskFor is the attention mask of a padded batch: causal, and blind to padding.
func maskFor(s *tensor.Scope, attention tensor.Tensor) tensor.Tensor {
	shape := attention.Shape()
	b, n := shape[0], shape[1]
	a := s.Int64s(attention)
	m := make([]bool, b*n*n)
	for i := range b {
		for r := range n {
			for c := range r + 1 {
				m[(i*n+r)*n+c] = a[i*n+c] == 1
			}
		}
	}
	return s.FromBools(m, b, 1, n, n)
}

func compare(t *testing.T, s *tensor.Scope, what string, got, want tensor.Tensor, mask []int64, width int,
	tolerance float64) {
	t.Helper()
	g, w := s.Float32s(got), s.Float32s(want)
	if len(g) != len(w) {
		t.Errorf("%s: %v values, want %v", what, got.Shape(), want.Shape())
		return
	}
	for i := range g {
		if mask != nil && mask[i/width] == 0 {
			continue
		}
		if d := math.Abs(float64(g[i] - w[i])); !(d <= tolerance) {
			t.Errorf("%s: element %d is %v, want %v", what, i, g[i], w[i])
			return
		}
	}
}

func TestGoldenModels(t *testing.T) {
	goldenModels(t, filepath.Join(golden.Root(t), "models"))
	goldenModels(t, golden.Folder(t, "downstream"))
	goldenModels(t, golden.Folder(t, "families"))
}

func goldenModels(t *testing.T, root string) {
	t.Helper()
	var index struct {
		Models []struct{ Folder, Cases string }
	}
	golden.ReadJSON(t, filepath.Join(root, "index.json"), &index)
	for _, entry := range index.Models {
		t.Run(entry.Folder, func(t *testing.T) {
			dir := filepath.Join(root, entry.Folder)
			var head struct {
				Type string `json:"model_type"`
			}
			golden.ReadJSON(t, filepath.Join(dir, "config.json"), &head)
			if _, ok := architectures[head.Type]; !ok && golden.Unbuilt(t, "models/"+entry.Folder) {
				return
			}
			m, err := Load(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Free()
			var list struct {
				Cases []struct {
					Name                  string
					Shape                 []int64
					Loss                  *float64
					LogitsAt              []int64 `json:"logits_at"`
					Prompt, First, Second int64
				}
				Greedy    []struct{ Prompt, Continuation []int32 }
				Gradients *goldenGradients
			}
			golden.ReadJSON(t, filepath.Join(root, entry.Cases, "cases.json"), &list)
			c := goldentensor.Open(t, filepath.Join(root, entry.Cases, "cases.safetensors"))
			checked := 0
			for _, k := range list.Cases {
				err := tensor.Run(func(s *tensor.Scope) error {
					p := k.Name + "/"
					in := Input{IDs: c.Load(s, p+"input_ids"), Positions: c.Load(s, p+"position_ids")}
					n := k.Shape[1]
					var real []int64
					if c.Has(p + "attention_mask_4d") {
						in.Mask = s.To(c.Load(s, p+"attention_mask_4d"), tensor.Bool)
					} else {
						mask := c.Load(s, p+"attention_mask")
						real = s.Int64s(mask)
						in.Mask = maskFor(s, mask)
					}
					hidden := m.Hidden(s, in, nil)
					logits := m.Logits(s, hidden)
					seen := real
					if len(k.LogitsAt) > 0 && real != nil {
						seen = s.Int64s(columns(s, c.Load(s, p+"attention_mask"), k.LogitsAt))
					}
					compare(t, s, k.Name+" logits", columns(s, logits, k.LogitsAt), c.Load(s, p+"logits"), seen,
						m.Config.Vocab, 1e-4)
					if c.Has(p + "logprobs") {
						ids := in.IDs
						flat := s.Reshape(s.Narrow(hidden, 1, 0, n-1), -1, hidden.Size(-1))
						next := numeric.Convert[int32](s.Int64s(s.Narrow(ids, 1, 1, n-1)))
						got := s.FromFloat32(s.NewLogProbs(m.Logits(s, flat), next, false, false).Values, k.Shape[0], n-1)
						want := s.Narrow(c.Load(s, p+"logprobs"), 1, 1, n-1)
						both := make([]int64, 0, len(real))
						for i := range real {
							if col := int64(i) % n; col > 0 {
								both = append(both, real[i]*real[i-1])
							}
						}
						compare(t, s, k.Name+" log-probabilities", got, want, both, 1, 5e-5)
						if k.Loss != nil {
							labels := s.Int64s(c.Load(s, p+"labels"))
							lp := s.Float32s(got)
							sum, count := 0.0, 0
							for i, label := range labels {
								if row, col := int64(i)/n, int64(i)%n; col > 0 && label != -100 {
									sum -= float64(lp[row*(n-1)+col-1])
									count++
								}
							}
							if got := sum / float64(count); math.Abs(got-*k.Loss) > 1e-5 {
								t.Errorf("%s: loss %v, want %v", k.Name, got, *k.Loss)
							}
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				checked++
			}
			for i, g := range list.Greedy {
				got, err := m.Generate(t.Context(), [][]int32{g.Prompt}, 1,
					SampleOptions{MaxNewTokens: len(g.Continuation), IgnoreEOS: true})
				if err != nil {
					t.Fatal(err)
				}
				for j, id := range got[0][0].IDs {
					if id != g.Continuation[j] {
						t.Errorf("greedy %d: token %d is %d, want %d", i, j, id, g.Continuation[j])
						break
					}
				}
				checked++
			}
			if len(list.Greedy) > 0 {
				var prompts [][]int32
				for _, g := range list.Greedy {
					prompts = append(prompts, g.Prompt)
				}
				got, err := m.Generate(t.Context(), prompts, 2,
					SampleOptions{MaxNewTokens: len(list.Greedy[0].Continuation), IgnoreEOS: true})
				if err != nil {
					t.Fatal(err)
				}
				for i, g := range list.Greedy {
					for j := range got[i] {
						for k, id := range got[i][j].IDs {
							if id != g.Continuation[k] {
								t.Errorf("greedy %d in a batch, sample %d: token %d is %d, want %d", i, j, k, id,
									g.Continuation[k])
								break
							}
						}
					}
				}
			}
			if list.Gradients != nil {
				list.Gradients.check(t, m)
				checked++
			}
			golden.Checked(t, filepath.Base(root)+"/"+entry.Folder, checked)
		})
	}
}

// goldenGradients are of the mean loss of a row: of each parameter, the norm and the product with sin(0), sin(1), ….
type goldenGradients struct {
	Row   []int32
	Loss  float64
	Parts map[string][2]float64
}

func (g goldenGradients) check(t *testing.T, m *Model) {
	t.Helper()
	params, err := m.Trainable()
	if err != nil {
		t.Fatal(err)
	}
	rows := []Row{{Tokens: g.Row}}
	err = tensor.Run(func(s *tensor.Scope) error {
		loss, grads := m.LossGradients(s, rows, nil, params, m.Counted(rows), Dropout{})
		if d := math.Abs(loss - g.Loss); !(d <= 1e-5*g.Loss) {
			t.Errorf("the loss is %g, want %g", loss, g.Loss)
		}
		for i, name := range m.Names() {
			want, ok := g.Parts[name]
			if !ok {
				t.Errorf("the reference has no gradient of %s", name)
			}
			square, product := 0.0, 0.0
			for j, x := range s.Float32s(grads[i]) {
				square += float64(x) * float64(x)
				product += float64(x) * math.Sin(float64(j))
			}
			if norm := math.Sqrt(square); !(math.Abs(norm-want[0]) <= 1e-4*want[0]+1e-6) ||
				!(math.Abs(product-want[1]) <= 1e-4*want[0]+1e-6) {
				t.Errorf("the gradient of %s has the norm %g and the product %g, want %v", name, norm, product, want)
			}
		}
		if len(g.Parts) != len(grads) {
			t.Errorf("%d parameters, want %d", len(grads), len(g.Parts))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
