package trainer

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"popri/model/tensor"
)

// TestDeviceAdam: the update on the device equals the CPU's to rounding, also clipped and with weight decay, and its
// state is saved, loaded and cleared alike. Here the device is the CPU's tensors; make cuda computes it on a GPU.
func TestDeviceAdam(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	o := AdamW{Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, WeightDecay: 0.1, MaxNorm: 1.5}
	err := tensor.Run(func(s *tensor.Scope) error {
		shapes := [][]int64{{3, 4}, {5}, {2, 2, 2}}
		values := func(scale float64) (out []tensor.Tensor) {
			for _, shape := range shapes {
				n := int64(1)
				for _, side := range shape {
					n *= side
				}
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(scale * random.NormFloat64())
				}
				out = append(out, s.FromFloat32(x, shape...))
			}
			return out
		}
		first := values(1)
		second := make([]tensor.Tensor, len(first))
		for i := range first {
			second[i] = s.Clone(first[i])
		}
		host, device := NewOptimizer(first, o), NewOptimizer(second, o)
		host.Free() // on a GPU too, host computes on the CPU
		if device.device == nil {
			device.device = newDeviceAdam(second)
		}
		defer device.Free()
		near := func(what string, a, b [][]float32) {
			t.Helper()
			for i := range a {
				for k := range a[i] {
					if math.Abs(float64(a[i][k]-b[i][k])) > 2e-6*(1+math.Abs(float64(a[i][k]))) {
						t.Fatalf("%s %d.%d: %g on the CPU, %g on the device", what, i, k, a[i][k], b[i][k])
					}
				}
			}
		}
		same := func() {
			t.Helper()
			a, b := host.State(), device.State()
			near("parameter", a.Params, b.Params)
			near("first moment", a.M, b.M)
			near("second moment", a.V, b.V)
			if a.Steps != b.Steps {
				t.Fatalf("%d and %d steps", a.Steps, b.Steps)
			}
		}
		for step := range 6 {
			grads := values([]float64{1, 1e-3, 30}[step%3])
			a, err := host.apply(grads, 0.01)
			if err != nil {
				return err
			}
			b, err := device.apply(grads, 0.01)
			if err != nil {
				return err
			}
			if math.Abs(a-b) > 1e-6*a {
				t.Errorf("gradient norm %g on the CPU, %g on the device", a, b)
			}
			same()
			if step == 3 {
				path := filepath.Join(t.TempDir(), "state.safetensors")
				if err := device.Save(path); err != nil {
					return err
				}
				device.Reset()
				for _, v := range device.State().V {
					for _, x := range v {
						if x != 0 {
							t.Fatal("the moments are not cleared")
						}
					}
				}
				if err := device.Load(path); err != nil {
					return err
				}
				same()
			}
		}
		bad := values(1)
		bad[1].Store([]float32{1, 2, float32(math.NaN()), 4, 5})
		if _, err := device.apply(bad, 0.01); err == nil {
			t.Error("a gradient that is not finite is applied")
		}
		same()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
