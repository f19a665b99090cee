package lm

import (
	"math"
	"strings"
	"testing"

	"popri/model/tensor"
)

// A copy whose projections are bytes gives nearly the logits of the model, and another type, or a CPU without such
// products, is refused.
func TestBytes(t *testing.T) {
	for name, c := range small() {
		t.Run(name, func(t *testing.T) {
			m := newSmall(t, c)
			if !m.canSample() {
				t.Skip("writes no text")
			}
			o := Options{Weights: tensor.BFloat16, Compute: tensor.BFloat16, Sampling: true, Bytes: true}
			if !tensor.CanPack8() {
				if _, err := m.Copy(o, nil); err == nil || !strings.Contains(err.Error(), "VNNI") {
					t.Errorf("the error is %v", err)
				}
				t.Skip("this CPU has no products of bytes that would be used")
			}
			rounded, err := m.Copy(o, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer rounded.Free()
			prompts := [][]int32{{3, 1, 4, 1, 5, 9, 2, 6}, {7}, {2, 7, 1, 8, 2, 8}}
			var logits [2][][]float32
			for i, m := range []*Model{m, rounded} {
				logits[i] = make([][]float32, len(prompts))
				l, err := m.NewLockstep(prompts, LockstepOptions{Room: 3})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Free()
				if err := l.Step(t.Context(), []int32{11, 12}, func(prompt int, row []float32) error {
					logits[i][prompt] = append([]float32{}, row...)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			off, size := 0.0, 0.0
			for p := range prompts {
				for k, want := range logits[0][p] {
					off += math.Pow(float64(logits[1][p][k]-want), 2)
					size += math.Pow(float64(want), 2)
				}
			}
			if share := math.Sqrt(off / size); share > 0.06 || share == 0 {
				t.Errorf("the logits differ by %.4f of their size", share)
			}
			o.Compute, o.Weights = tensor.Float32, tensor.Float32
			if _, err := m.Copy(o, nil); err == nil {
				t.Error("float32 is accepted")
			}
		})
	}
}
