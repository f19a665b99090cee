package lora

import (
	"math/rand/v2"
	"slices"
	"testing"

	"popri/model/lm"
	"popri/model/tensor"
)

// TestFewPositions: what follows the last block's attention is computed for scored tokens alone, and log-probabilities
// and gradients are as in rows whose tokens are all scored, where the others weigh nothing.
func TestFewPositions(t *testing.T) {
	models, adapters := kinds()
	random := rand.New(rand.NewPCG(7, 3))
	rows := []lm.Row{{Tokens: make([]int32, 30)}, {Tokens: make([]int32, 21)}}
	for _, r := range rows {
		for i := range r.Tokens {
			r.Tokens[i] = int32(random.IntN(97))
		}
	}
	few := make([]lm.Row, len(rows))
	for i, r := range rows {
		few[i] = lm.Row{Tokens: r.Tokens, Labels: slices.Repeat([]int32{lm.Ignore}, len(r.Tokens))}
		copy(few[i].Labels[len(r.Tokens)-4:], r.Tokens[len(r.Tokens)-4:])
	}
	for arch, config := range models {
		for kind, of := range adapters {
			t.Run(arch+" "+kind, func(t *testing.T) {
				m, err := lm.New(config, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32}, random.NormFloat64)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Free()
				a := filled(t, m, of)
				params, err := a.Trainable()
				if err != nil {
					t.Fatal(err)
				}
				measure := func(rows []lm.Row, weight func(i, n int) float32) (values, gradients []float64) {
					err := tensor.Run(func(s *tensor.Scope) error {
						s.WithGrad(func() {
							sc := m.Score(s, rows, a, false)
							weights := make([]float32, len(sc.LogProbs))
							for i, p := range sc.LogProbs {
								if weights[i] = weight(i, len(weights)); weights[i] != 0 {
									values = append(values, float64(p))
								}
							}
							for _, g := range sc.Gradients(s, weights, params) {
								gradients = append(gradients, s.Float64s(g)...)
							}
						})
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					return values, gradients
				}
				want, gradients := measure(rows, func(i, _ int) float32 {
					if i >= 29-4 && i < 29 || i >= 29+20-4 {
						return 1
					}
					return 0
				})
				got, fewGradients := measure(few, func(int, int) float32 { return 1 })
				if d := apart(got, want); len(got) != 8 || len(want) != 8 || !(d < 1e-5) {
					t.Errorf("%d log-probabilities are off by %g of %d", len(got), d, len(want))
				}
				if d := apart(fewGradients, gradients); !(d < 1e-4) {
					t.Errorf("gradients are off by %g", d)
				}
			})
		}
	}
}
