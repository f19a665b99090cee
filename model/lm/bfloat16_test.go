package lm

import (
	"math"
	"reflect"
	"testing"

	"popri/model/tensor"
)

// In bfloat16 every architecture gives nearly the same logits, trains with float32 weights, and samples.
func TestBFloat16(t *testing.T) {
	rows := [][]int32{{1, 2, 3, 50, 96, 4, 7, 9, 12, 30, 31, 32}, {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}
	for name, c := range small() {
		t.Run(name, func(t *testing.T) {
			m := newSmall(t, c)
			want := logitsOf(t, m, rows...)
			half, err := m.Copy(Options{Weights: tensor.BFloat16}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer half.Free()
			mixed, err := m.Copy(Options{Compute: tensor.BFloat16}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer mixed.Free()
			for what, m := range map[string]*Model{"weights": half, "products": mixed} {
				got := logitsOf(t, m, rows...)
				dot, a, b := 0.0, 0.0, 0.0
				for i := range want {
					dot += float64(got[i]) * float64(want[i])
					a += float64(got[i]) * float64(got[i])
					b += float64(want[i]) * float64(want[i])
				}
				if cosine := dot / math.Sqrt(a*b); !(cosine > 0.999) {
					t.Errorf("%s: cosine %g with float32", what, cosine)
				}
				out, err := m.Generate(t.Context(), rows, 2,
					SampleOptions{Temperature: 1, MaxNewTokens: 8, IgnoreEOS: true})
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				for i := range out {
					for j, s := range out[i] {
						if len(s.IDs) != 8 {
							t.Errorf("%s: sample %d of prompt %d has %d tokens", what, j, i, len(s.IDs))
						}
					}
				}
			}
			tr := newDescent(t, mixed)
			first, last := 0.0, 0.0
			for i := range 10 {
				if last, _, err = tr.step([]Row{{Tokens: rows[0]}, {Tokens: rows[1]}}, 2, 2e-3); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					first = last
				}
			}
			if !(last < first) {
				t.Errorf("loss %g after %g", last, first)
			}
		})
	}
}

// TestSamplingAlone: a model made for sampling draws what the whole one draws, and says so where it is asked for more.
func TestSamplingAlone(t *testing.T) {
	prompts := [][]int32{{1, 2, 3, 50, 96}, {5, 6}}
	o := SampleOptions{Temperature: 1, MaxNewTokens: 8, Seed: 3}
	for name, c := range small() {
		for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			t.Run(name+" "+d.String(), func(t *testing.T) {
				m := newSmall(t, c)
				var out [2][][]Sample
				for i, sampling := range []bool{false, true} {
					copied, err := m.Copy(Options{Weights: d, Sampling: sampling}, nil)
					if err != nil {
						t.Fatal(err)
					}
					if err := copied.Pack(); err != nil {
						t.Fatal(err)
					}
					if out[i], err = copied.Generate(t.Context(), prompts, 3, o); err != nil {
						t.Fatal(err)
					}
					err = tensor.Run(func(s *tensor.Scope) error {
						copied.Hidden(s, PaddedInput(s, prompts, c.Context), nil)
						return nil
					})
					if refused := err != nil; refused != (sampling && tensor.CanPack(d)) {
						t.Errorf("made for sampling %v: the forward pass gives %v", sampling, err)
					}
					copied.Free()
				}
				if !reflect.DeepEqual(out[0], out[1]) {
					t.Errorf("made for sampling alone it draws %v, want %v", out[1], out[0])
				}
			})
		}
	}
}
