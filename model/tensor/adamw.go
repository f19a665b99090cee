package tensor

// #cgo CFLAGS: -O3 -Wno-psabi
// #include "torch.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"
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
		return fmt.Errorf("tensor: AdamW holds %d parameters, got %d and %d gradients", len(a.M), len(params), len(grads))
	}
	a.Step++
	c1 := 1 - math.Pow(a.Beta1, float64(a.Step))
	c2 := 1 - math.Pow(a.Beta2, float64(a.Step))
	for i, p := range params {
		if len(p) != len(a.M[i]) || len(grads[i]) != len(p) {
			return fmt.Errorf("tensor: AdamW parameter %d has %d values, state %d, gradient %d", i, len(p),
				len(a.M[i]), len(grads[i]))
		}
		onParts(len(p), func(_, from, to int) {
			C.popri_adamw(cfloats(p[from:to]), cfloats(grads[i][from:to]), cfloats(a.M[i][from:to]),
				cfloats(a.V[i][from:to]), C.int64_t(to-from), C.float(lr), C.float(a.Beta1), C.float(a.Beta2),
				C.float(a.Eps), C.float(a.WeightDecay), C.float(c1), C.float(c2), C.float(scale))
		})
	}
	return nil
}

// Elements of a part: one thread works on all of them, so that threads change no bits.
const partElements = 1 << 19

// onParts calls f for parts of n elements, on as many threads as [SetThreads] chose.
func onParts(n int, f func(part, from, to int)) {
	parts := (n + partElements - 1) / partElements
	s := &Scope{threads: Threads()}
	s.parallel(parts, func(first, last int) {
		for i := first; i < last; i++ {
			f(i, i*partElements, min((i+1)*partElements, n))
		}
	})
}

// GlobalNorm is the L2 norm over all gradients together.
func GlobalNorm(grads [][]float32) float64 {
	total := 0.0
	for _, g := range grads {
		sums := make([]float64, len(g)/partElements+1)
		onParts(len(g), func(part, from, to int) {
			sums[part] = float64(C.popri_sum_squares(cfloats(g[from:to]), C.int64_t(to-from)))
		})
		for _, x := range sums {
			total += x
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

// CanUpdate reports whether [Scope.AdamW_] and [Scope.SquareSums] compute here: with a GPU's kernels.
func (s *Scope) CanUpdate() bool { return s.gpu && !s.portable }

// AdamW_ is [AdamW.Update] of one parameter, its gradient and its moments, contiguous float32 tensors on a GPU: update
// number step, from 1 on.
func (s *Scope) AdamW_(p, g, m, v Tensor, a *AdamW, step int, lr, scale float64) {
	n := p.NumElements()
	c := C.popri_gpu_adamw{p: p.floats(), g: g.floats(), m: m.floats(), v: v.floats(), lr: C.float(lr),
		b1: C.float(a.Beta1), b2: C.float(a.Beta2), eps: C.float(a.Eps), wd: C.float(a.WeightDecay),
		c1: C.float(1 - math.Pow(a.Beta1, float64(step))), c2: C.float(1 - math.Pow(a.Beta2, float64(step))),
		scale: C.float(scale)}
	launch(adamWKernel, unsafe.Pointer(&c), n, (n+C.GPU_ELEMENTS-1)/C.GPU_ELEMENTS, 256)
}

// SquareSums is the sum of the squares of the elements of all tensors, contiguous float32 on a GPU.
func (s *Scope) SquareSums(list []Tensor) (sum float64) {
	s.Do(func() {
		blocks := make([]int64, len(list)+1)
		for i, t := range list {
			blocks[i+1] = blocks[i] + (t.NumElements()+C.GPU_ELEMENTS-1)/C.GPU_ELEMENTS
		}
		parts := s.Empty(Float32, blocks[len(list)])
		for i, t := range list {
			c := C.popri_gpu_adamw{g: t.floats(), squares: (*C.float)(unsafe.Add(parts.pointer(), 4*blocks[i]))}
			launch(squaresKernel, unsafe.Pointer(&c), t.NumElements(), blocks[i+1]-blocks[i], 256)
		}
		for _, x := range s.Float32s(parts) {
			sum += float64(x)
		}
	})
	return sum
}
