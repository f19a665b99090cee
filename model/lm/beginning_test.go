package lm

import (
	"math"
	"slices"
	"testing"

	"popri/internal/rng"
	"popri/model/tensor"
)

// TestBeginning: rows that continue from a beginning, which is computed once, have the log-probabilities of whole rows,
// with one sequence or several, up to the model's context, with packed weights and without. Nothing is left when it is
// freed.
func TestBeginning(t *testing.T) {
	for name, c := range small() {
		t.Run(name, func(t *testing.T) {
			m := newSmall(t, c)
			if !m.canSample() {
				if _, err := m.Begin([]int32{1}); err == nil {
					t.Error("a model that writes no text begins one")
				}
				return
			}
			random := rng.New(1, "beginning")
			draw := func(n int) []int32 {
				ids := make([]int32, n)
				for i := range ids {
					ids[i] = int32(random.IntN(c.Vocab))
				}
				return ids
			}
			begun := tensor.Live()
			for _, packed := range []bool{false, true} {
				if packed {
					if err := m.Pack(); err != nil {
						t.Fatal(err)
					}
				}
				for _, length := range []int{0, 1, 5, 40} {
					begin := draw(length)
					var whole, behind []Row
					for i := range 7 {
						prompt, answers := draw(1+random.IntN(6)), [][]int32{draw(1 + random.IntN(4))}
						if i == 6 {
							answers[0] = draw(c.Context - length - len(prompt))
						}
						for range i % 3 {
							answers = append(answers, draw(1+random.IntN(4)))
						}
						whole = append(whole, NewRow(slices.Concat(begin, prompt), answers...))
						behind = append(behind, NewRow(prompt, answers...))
					}
					b, err := m.Begin(begin)
					if err != nil {
						t.Fatal(err)
					}
					for _, n := range []int{1, len(whole)} {
						err = tensor.Run(func(s *tensor.Scope) error {
							want, got := m.Score(s, whole[:n], nil, false), b.Score(s, behind[:n])
							if !slices.Equal(got.Row, want.Row) {
								t.Fatalf("tokens belong to %v, want %v", got.Row, want.Row)
							}
							for i, w := range want.LogProbs {
								if math.Abs(float64(got.LogProbs[i]-w)) > 5e-5 {
									t.Fatalf("behind %d tokens, log-probability %d is %g, want %g", length, i,
										got.LogProbs[i], w)
								}
							}
							return nil
						})
						if err != nil {
							t.Fatal(err)
						}
					}
					b.Free()
				}
			}
			m.unpack()
			if left := tensor.Live() - begun; left > 0 {
				t.Errorf("%d tensors are left", left)
			}
			for _, ids := range [][]int32{{int32(c.Vocab)}, make([]int32, c.Context+1)} {
				if _, err := m.Begin(ids); err == nil {
					t.Errorf("%d tokens begin a text", len(ids))
				}
			}
		})
	}
}
