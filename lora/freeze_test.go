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

// TestFreeze: with weights laid out, log-probabilities and gradients of an adapter are those without, but for rounding,
// until Unpack, from which on they are the same bits as before.
func TestFreeze(t *testing.T) {
	models, adapters := kinds()
	var all []float64
	for _, arch := range slices.Sorted(maps.Keys(models)) {
		t.Run(arch, func(t *testing.T) {
			const seeds = 5
			var usual, laid [seeds]float64
			for i := range seeds {
				exact, again := frozen(t, models[arch], adapters["patterns"], tensor.Float32, uint64(i))
				if e := apart(exact, again); !(e < 1e-5) {
					t.Errorf("in float32 the values are off by %.2g %%", 100*e)
				}
				before, after := frozen(t, models[arch], adapters["patterns"], tensor.BFloat16, uint64(i))
				usual[i], laid[i] = apart(exact, before), apart(exact, after)
				all = append(all, laid[i])
			}
			// In bfloat16, laid out or not, rounding takes the values about as far from those in float32.
			slices.Sort(usual[:])
			slices.Sort(laid[:])
			if a, b := usual[seeds/2], laid[seeds/2]; !(a < 0.15 && b < 2*a) {
				t.Errorf("in bfloat16 the values are off by %.2g %%, and laid out by %.2g %%", 100*a, 100*b)
			}
		})
	}
	slices.Sort(all)
	if len(all) > 0 && !(all[len(all)/2] < 0.02) {
		t.Errorf("in bfloat16 half of the models' values are off by %.2g %% or more", 100*all[len(all)/2])
	}
}

// apart is the distance of values from x in relation to their size.
func apart(x, values []float64) float64 {
	wrong, size := 0.0, 0.0
	for i := range x {
		wrong += (x[i] - values[i]) * (x[i] - values[i])
		size += x[i] * x[i]
	}
	return math.Sqrt(wrong / size)
}

// frozen returns log-probabilities and gradients before and after Freeze, and checks that it ends with Unpack.
func frozen(t *testing.T, config lm.Config, adapter Config, compute tensor.DType, seed uint64) (before,
	after []float64) {
	random := rand.New(rand.NewPCG(7, seed))
	m, err := lm.New(config, lm.Options{Weights: tensor.BFloat16, Compute: compute}, random.NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	if !lm.CanFreeze(m.Config, m.Parameters(), m.Compute) {
		t.Skip("this CPU has no matrix unit")
	}
	a := filled(t, m, adapter)
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
	before = measure()
	for range 2 { // the second time does nothing
		if err := m.Freeze(); err != nil {
			t.Fatal(err)
		}
	}
	after = measure()
	// What is computed with is what was laid out.
	w := m.Linears()[a.Names()[0]].Weight()
	err = tensor.Run(func(s *tensor.Scope) error {
		kept := s.Clone(w)
		s.Copy_(w, s.Zeros(w.DType(), w.Shape()...))
		if !slices.Equal(after, measure()) {
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
	return before, after
}
