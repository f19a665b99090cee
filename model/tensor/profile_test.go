package tensor

import (
	"errors"
	"testing"
)

// recordedOf adds up what operations of a name took in a region.
func recordedOf(ops []Operation, name string, r Region) (seconds float64, calls int64) {
	for _, o := range ops {
		if o.Name == name && o.Region == r {
			seconds += o.Seconds
			calls += o.Calls
		}
	}
	return seconds, calls
}

// Operations count to the region that they run in, operations of a backward pass to their forward pass's region.
func TestRecordedRegions(t *testing.T) {
	if DefaultDevice() != CPU {
		t.Skip("a GPU's backward pass has a thread of its own, which knows no regions")
	}
	ops, err := Record(func() error {
		return Parallel(3, func(_ int, s *Scope) error {
			x := s.Full(Float32, 0.5, 8, 8)
			s.RequireGrad(x, true)
			s.WithGrad(func() {
				y := s.MatMul(x, x)
				end := Attention.Enter()
				y = s.MatMul(y, x)
				end()
				loss := s.Sum(s.MatMul(y, x))
				s.Backward(loss, []Tensor{x})
			})
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	// A product has two gradients, and there are three tasks. The first product's input needs both, too.
	for r, want := range map[Region]int64{Elsewhere: 3 * (2 + 4), Attention: 3 * (1 + 2), Head: 0} {
		if _, calls := recordedOf(ops, "aten::mm", r); calls != want {
			t.Errorf("region %d: %d products, want %d", r, calls, want)
		}
	}
	for _, o := range ops {
		if o.Seconds < 0 || o.Calls < 1 {
			t.Errorf("%+v", o)
		}
	}
}

// Kernels, draws and the release of tensors are recorded; nothing is, before and after.
func TestRecordedKernels(t *testing.T) {
	kernels := func() error {
		return Run(func(s *Scope) error {
			s.RMSNorm(s.Full(Float32, 1, 4, 64), s.Full(Float32, 1, 64), 1e-5)
			(&Sampler{Temperature: 1, TopP: 0.5}).Draw(s, s.Full(Float32, 1, 2, 64), []float64{0.1, 0.9}, nil)
			return nil
		})
	}
	failure := errors.New("x")
	if _, err := Record(func() error { return failure }); err != failure {
		t.Fatal(err)
	}
	if err := kernels(); err != nil {
		t.Fatal(err)
	}
	ops, err := Record(kernels)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Region{FreeName: Elsewhere, GoName: Elsewhere}
	if !portable && DefaultDevice() == CPU {
		want["popri::rmsnorm"], want["popri::sample"], want["popri::draw"] = Elsewhere, Head, Head
	}
	for name, r := range want {
		if _, calls := recordedOf(ops, name, r); calls < 1 {
			t.Errorf("%s is not recorded in region %d: %+v", name, r, ops)
		}
	}
	if again, err := Record(func() error { return nil }); err != nil || len(again) != 1 || again[0].Name != GoName {
		t.Errorf("%+v, %v: something of an earlier recording", again, err)
	}
}
