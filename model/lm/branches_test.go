package lm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"popri/model/tensor"
)

// Completions in one row with their prompt, which may be longer than the context, have the log-probabilities and
// gradients of rows by themselves, also where the blocks are computed again on the way back.
func TestOneRowEqualsMany(t *testing.T) {
	for name, config := range small() {
		m := newSmall(t, config)
		params, err := m.Trainable()
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(21, 22))
		draw := func(n int) []int32 {
			ids := make([]int32, n)
			for i := range ids {
				ids[i] = int32(random.IntN(m.Config.Vocab))
			}
			return ids
		}
		var one, many []Row
		for n := range 6 {
			prompt := draw(1 + random.IntN(6))
			completions := make([][]int32, 1+n)
			for i := range completions {
				completions[i] = draw(1 + random.IntN(5))
				many = append(many, NewRow(prompt, completions[i]))
			}
			if n == 5 {
				completions = append(completions, draw(m.Config.Context-len(prompt)))
				many = append(many, NewRow(prompt, completions[n+1]))
			}
			one = append(one, NewRow(prompt, completions...))
		}
		score := func(rows []Row) (logProbs []float32, sequence []int, grads [][]float32) {
			err := tensor.Run(func(s *tensor.Scope) error {
				s.WithGrad(func() {
					sc := m.Score(s, rows, nil, false)
					logProbs, sequence = slices.Clone(sc.LogProbs), sc.Row
					weights := make([]float32, len(sc.LogProbs))
					for i, q := range sc.Row {
						weights[i] = float32(1+q%2*-3) / 5 // neighbours pull apart
					}
					for _, g := range sc.Gradients(s, weights, params) {
						grads = append(grads, s.Float32s(g))
					}
				})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return logProbs, sequence, grads
		}
		wantLP, wantRow, wantGrads := score(many)
		for _, recompute := range []bool{false, true} {
			m.Recompute = recompute
			gotLP, gotRow, gotGrads := score(one)
			if !slices.Equal(gotRow, wantRow) {
				t.Fatalf("%s: tokens belong to %v, want %v", name, gotRow, wantRow)
			}
			for i := range wantLP {
				bound := 1e-5
				if tensor.DefaultDevice() != tensor.CPU { // products of another size add up in another order
					bound += 2e-6 * math.Abs(float64(wantLP[i]))
				}
				if math.Abs(float64(gotLP[i]-wantLP[i])) > bound {
					t.Errorf("%s: log-probability %d is %g, want %g", name, i, gotLP[i], wantLP[i])
				}
			}
			for k := range wantGrads {
				for i := range wantGrads[k] {
					if got, want := float64(gotGrads[k][i]),
						float64(wantGrads[k][i]); math.Abs(got-want) > 5e-5*(1+math.Abs(want)) {
						t.Fatalf("%s: gradient %d of %s is %g, want %g", name, i, m.Names()[k], got, want)
					}
				}
			}
		}
	}
}
