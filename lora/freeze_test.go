package lora

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"popri/model/lm"
	"popri/model/tensor"
)

// TestFreeze: with weights laid out, log-probabilities and gradients of an adapter are nearly those without, until
// Unpack, from which on they are the same bits as before.
func TestFreeze(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	models, adapters := kinds()
	for _, arch := range slices.Sorted(maps.Keys(models)) {
		t.Run(arch, func(t *testing.T) {
			m, err := lm.New(models[arch], lm.Options{Weights: tensor.BFloat16}, random.NormFloat64)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.Free)
			if !lm.CanFreeze(m.Config, m.Parameters(), m.Compute) {
				t.Skip("this CPU has no matrix unit")
			}
			a := filled(t, m, adapters["patterns"])
			params, err := a.Trainable()
			if err != nil {
				t.Fatal(err)
			}
			row := lm.NewRow([]int32{1, 2, 3, 4, 5}, []int32{6, 7, 8, 9, 10, 11}, []int32{12, 13, 14})
			measure := func() (all []float64) {
				err := tensor.Run(func(s *tensor.Scope) error {
					s.WithGrad(func() {
						sc := m.Score(s, []lm.Row{row}, a, false)
						weights := make([]float32, len(sc.LogProbs))
						for i, lp := range sc.LogProbs {
							all, weights[i] = append(all, float64(lp)), 1+float32(i)
						}
						for _, g := range sc.Gradients(s, weights, params) {
							all = append(all, s.Float64s(g)...)
						}
					})
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			before := measure()
			for range 2 { // the second time does nothing
				if err := m.Freeze(); err != nil {
					t.Fatal(err)
				}
			}
			frozen := measure()
			// What is computed with is what was laid out.
			w := m.Linears()[a.Names()[0]].Weight()
			err = tensor.Run(func(s *tensor.Scope) error {
				kept := s.Clone(w)
				s.Copy_(w, s.Zeros(w.DType(), w.Shape()...))
				if !slices.Equal(frozen, measure()) {
					t.Error("the values follow the weights in spite of Freeze")
				}
				s.Copy_(w, kept)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			m.Unpack()
			if !slices.Equal(before, measure()) {
				t.Error("after Unpack, the values are others than before")
			}
			wrong, size := 0.0, 0.0
			for i, x := range before {
				wrong += (x - frozen[i]) * (x - frozen[i])
				size += x * x
			}
			if !(math.Sqrt(wrong/size) < 0.02) {
				t.Errorf("the values are off by %.2g %%", 100*math.Sqrt(wrong/size))
			}
		})
	}
}
