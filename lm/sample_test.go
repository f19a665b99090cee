package lm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"popri/tensor"
)

// Greedy samples are the likeliest tokens of the whole forward pass, whatever the size of a head is.
func TestGreedyFollowsForward(t *testing.T) {
	for _, dim := range []int{8, 16, 20, 48} {
		t.Run(fmt.Sprintf("head of %d", dim), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(dim), 1))
			m, err := New(Config{Type: "gpt2", Vocab: 97, Context: 48, Hidden: 3 * dim, Layers: 2, Heads: 3, Inner: 5 * dim, NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, ScaleAttn: true},
				Options{}, func() float64 { return 10 * random.NormFloat64() })
			if err != nil {
				t.Fatal(err)
			}
			defer m.Free()
			prompts := [][]int32{{5}, {7, 8, 9}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}}
			got, err := m.Generate(t.Context(), prompts, 3, SampleOptions{MaxNewTokens: 20})
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range prompts {
				row := append(slices.Clone(p), got[i][0].IDs...)
				err := tensor.Run(func(s *tensor.Scope) error {
					logits := s.Float32s(m.Logits(s, m.Hidden(s, PaddedInput(s, [][]int32{row}, m.Config.Context), nil)))
					for j, id := range got[i][0].IDs {
						at := logits[(len(p)+j-1)*m.Config.Vocab:][:m.Config.Vocab]
						if best := slices.Max(at); best-at[id] > 1e-4 {
							t.Errorf("prompt %d: token %d is %d with logit %g, the highest is %g", i, j, id, at[id], best)
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for j := range got[i] {
					if !slices.Equal(got[i][j].IDs, got[i][0].IDs) {
						t.Errorf("prompt %d: sample %d differs from the first", i, j)
					}
				}
			}
		})
	}
}
