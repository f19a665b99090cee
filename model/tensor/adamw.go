package tensor

// #cgo CFLAGS: -O3 -Wno-psabi
// #include "torch.h"
import "C"

import (
	"fmt"
	"math"
)

// AdamW is decoupled-weight-decay Adam (Loshchilov and Hutter 2019, with Adam's bias correction), in float32, on the
// CPU, one parameter group. Its moments are plain slices, so that a checkpoint can hold them.
type AdamW struct {
	Beta1, Beta2, Eps, WeightDecay float64
	Step                           int         // updates done
	M, V                           [][]float32 // first and second moments, one slice a parameter
}

// NewAdamW returns an optimizer for parameters of the given sizes.
func NewAdamW(beta1, beta2, eps, weightDecay float64, sizes []int) *AdamW {
	a := &AdamW{Beta1: beta1, Beta2: beta2, Eps: eps, WeightDecay: weightDecay}
	for _, n := range sizes {
		a.M = append(a.M, make([]float32, n))
		a.V = append(a.V, make([]float32, n))
	}
	return a
}

// Update applies one step at learning rate lr; gradients are multiplied by scale first (see [ClipScale]).
func (a *AdamW) Update(params, grads [][]float32, lr, scale float64) error {
	if len(params) != len(a.M) || len(grads) != len(a.M) {
		return fmt.Errorf("tensor: AdamW holds %d parameters, got %d and %d gradients", len(a.M), len(params),
			len(grads))
	}
	a.Step++
	c1 := 1 - math.Pow(a.Beta1, float64(a.Step))
	c2 := 1 - math.Pow(a.Beta2, float64(a.Step))
	for i, p := range params {
		if len(p) != len(a.M[i]) || len(grads[i]) != len(p) {
			return fmt.Errorf("tensor: AdamW parameter %d has %d values, state %d, gradient %d", i, len(p),
				len(a.M[i]), len(grads[i]))
		}
		if len(p) == 0 {
			continue
		}
		C.popri_adamw((*C.float)(&p[0]), (*C.float)(&grads[i][0]), (*C.float)(&a.M[i][0]), (*C.float)(&a.V[i][0]),
			C.int64_t(len(p)),
			C.float(lr), C.float(a.Beta1), C.float(a.Beta2), C.float(a.Eps), C.float(a.WeightDecay), C.float(c1),
			C.float(c2), C.float(scale))
	}
	return nil
}

// GlobalNorm is the L2 norm over all gradients together.
func GlobalNorm(grads [][]float32) float64 {
	total := 0.0
	for _, g := range grads {
		if len(g) > 0 {
			total += float64(C.popri_sum_squares((*C.float)(&g[0]), C.int64_t(len(g))))
		}
	}
	return math.Sqrt(total)
}

// ClipScale is the factor min(1, limit/(norm+1e-6)) that clips gradients to a norm; limit ≤ 0 does not clip.
func ClipScale(norm, limit float64) float64 {
	if limit <= 0 {
		return 1
	}
	return math.Min(1, limit/(norm+1e-6))
}
