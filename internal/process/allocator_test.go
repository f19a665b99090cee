//go:build linux && amd64

package process

import (
	"math"
	"slices"
	"testing"

	"popri/model/tensor"
	"popri/testkit/testfile"
)

func TestProgramTakesTheseFunctions(t *testing.T) {
	want := testfile.Allocator
	if defined := testfile.Defined(t, want...); !slices.Equal(defined, want) {
		t.Errorf("the executable defines %q, want %q", defined, want)
	}
}

// Tensors of many sizes keep their values while others come and go, on several threads and across Trim.
func TestBlocksDoNotOverlap(t *testing.T) {
	for range 3 {
		err := tensor.Parallel(64, func(i int, s *tensor.Scope) error {
			type held struct {
				t     tensor.Tensor
				value float64
			}
			var list []held
			for k := range 40 {
				n := int64(1+(i*37+k*101)%300) * 512
				value := float64(i*1000 + k)
				list = append(list, held{s.Full(tensor.Float32, value, n), value})
				s.Do(func() { s.Zeros(tensor.Float32, n+64) })
			}
			for _, h := range list {
				for _, v := range s.Float32s(h.t) {
					if math.Abs(float64(v)-h.value) > 0 {
						t.Errorf("a tensor of %g holds %g", h.value, v)
						return nil
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		tensor.Trim()
	}
}
