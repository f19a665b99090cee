package benchmark

import (
	"testing"

	"popri/model/tensor"
)

// A rate between one multiplication a microsecond and what no machine reaches.
func TestProductRate(t *testing.T) {
	for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		if r, err := ProductRate(d); err != nil || r < 1e6 || r > 1e17 {
			t.Errorf("%v: %g operations a second, %v", d, r, err)
		}
	}
}
