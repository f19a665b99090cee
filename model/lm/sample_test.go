package lm

import (
	"fmt"
	"slices"
	"testing"

	"popri/model/tensor"
)

// Greedy samples are the likeliest tokens of the whole forward pass, whatever the architecture and the size of a head
// are.
func TestGreedyFollowsForward(t *testing.T) {
	configs := small()
	for _, dim := range []int{16, 20, 48} {
		configs[fmt.Sprintf("head of %d", dim)] = Config{Type: "gpt2", Vocab: 97, Context: 48, Hidden: 3 * dim,
			Layers: 2, Heads: 3, Inner: 5 * dim, NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, ScaleAttn: true}
	}
	for name, c := range configs {
		t.Run(name, func(t *testing.T) {
			m := newSmall(t, c)
			prompts := [][]int32{{5}, {7, 8, 9}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}}
			got, err := m.Generate(t.Context(), prompts, 3, SampleOptions{MaxNewTokens: 20, IgnoreEOS: true})
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range prompts {
				row := append(slices.Clone(p), got[i][0].IDs...)
				err := tensor.Run(func(s *tensor.Scope) error {
					logits := s.Float32s(m.Logits(s,
						m.Hidden(s, PaddedInput(s, [][]int32{row}, m.Config.Context), nil)))
					for j, id := range got[i][0].IDs {
						at := logits[(len(p)+j-1)*m.Config.Vocab:][:m.Config.Vocab]
						if best := slices.Max(at); best-at[id] > 1e-4 {
							t.Errorf("prompt %d: token %d is %d with logit %g, the highest is %g", i, j, id, at[id],
								best)
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
