package lm

import (
	"math"
	"testing"

	"popri/model/tensor"
)

// TestFormulas: the fast form of every architecture's block has the log-probabilities, the gradients and the samples of
// its formula, with dropout and without, and where blocks are computed again in the backward pass.
func TestFormulas(t *testing.T) {
	if tensor.Portable() {
		t.Skip("there are no kernels")
	}
	rows := []Row{{Tokens: []int32{1, 2, 3, 4, 5, 6, 7}}, {Tokens: []int32{9, 8, 7, 6, 5, 4, 3, 2, 1, 11, 12, 13}},
		NewRow([]int32{4, 5, 6}, []int32{1, 2, 3}, []int32{7, 8})}
	for name, c := range every() {
		m := newSmall(t, c)
		params, err := m.Trainable()
		if err != nil {
			t.Fatal(err)
		}
		for _, drop := range []Dropout{{}, {Rate: 0.2, Seed: 3}} {
			for _, m.Recompute = range []bool{false, true} {
				var losses [2]float64
				var all [2][][]float32
				for i := range 2 {
					m.formulas = i == 1
					err := tensor.Run(func(s *tensor.Scope) error {
						loss, grads := m.LossGradients(s, rows, nil, params, m.Counted(rows), drop)
						losses[i] = loss
						for _, g := range grads {
							all[i] = append(all[i], s.Float32s(g))
						}
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				if d := math.Abs(losses[0] - losses[1]); !(d <= 1e-5) {
					t.Errorf("%s, %+v: the loss is %g, by the formula %g", name, drop, losses[0], losses[1])
				}
				for k, want := range all[1] {
					sameValues(t, name+": gradient of "+m.Names()[k], all[0][k], want, 2e-4)
				}
			}
		}
		if !m.canSample() {
			continue
		}
		untrained, err := m.Copy(Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var text [2][]int32
		for i := range text {
			untrained.formulas = i == 1
			out, err := untrained.Generate(t.Context(), [][]int32{{1, 2, 3}}, 1, SampleOptions{MaxNewTokens: 8,
				IgnoreEOS: true})
			if err != nil {
				t.Fatal(err)
			}
			text[i] = out[0][0].IDs
		}
		for i := range text[0] {
			if text[0][i] != text[1][i] {
				t.Errorf("%s: the samples are %v, by the formula %v", name, text[0], text[1])
				break
			}
		}
		untrained.Free()
	}
}
