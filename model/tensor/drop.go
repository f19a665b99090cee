package tensor

// #include "torch.h"
import "C"

import (
	"math"
	"unsafe"
)

// Dropout sets elements to zero with a probability, its rate, and scales the others by 1/(1 − rate) (Srivastava et al.
// 2014). Which ones it hides follows from the key, the row and the column alone.
type Dropout struct {
	Rate float64 // from 0, which hides none, up to 1
	Key  uint64
}

// dropBelow is the rate as a fraction of 2^32.
func dropBelow(rate float64) C.uint32_t {
	return C.uint32_t(min(math.Round(rate*(1<<32)), math.MaxUint32))
}

var dropKernel = kernel{C.popri_range(C.popri_drop_rows), C.CString("popri::drop"), C.GPU_drop_rows}

// Drop applies dropout to x [..., n]. The mask of more rows begins with the mask of fewer, so padding does not change
// it. It has a gradient.
func (s *Scope) Drop(x Tensor, d Dropout) Tensor {
	if d.Rate == 0 {
		return x
	}
	x = s.Contiguous(x)
	key, factor := []int64{int64(d.Key)}, 1/(1-d.Rate)
	if !s.fused("Drop", x) {
		host := &Scope{device: CPU, threads: 1}
		defer host.free()
		kept := host.dropped(host.Full(Float32, 1, x.Shape()...), host.FromInt64(key, 1), d.Rate, 1)
		mask := s.FromFloat32(kept.view32(), x.Shape()...)
		return s.MulScalar(s.Mul(x, s.To(mask, x.DType())), factor)
	}
	saved := s.FromInt64(key, 1)
	y := s.dropped(x, saved, d.Rate, factor)
	s.record(step{op: stepDrop, numbers: []float64{d.Rate}, saved: []Tensor{saved}, inputs: []Tensor{x}, outputs: []Tensor{y}})
	return y
}

func (s *Scope) dropped(x, key Tensor, rate, factor float64) Tensor {
	n := x.Size(-1)
	y := s.Empty(x.DType(), x.Shape()...)
	p := C.popri_drop{bf16: cbool(x.DType() == BFloat16), limit: dropBelow(rate), factor: C.float(factor),
		n: C.int64_t(n), key: (*C.int64_t)(key.pointer()), x: x.pointer(), y: y.pointer()}
	s.shared(dropKernel, unsafe.Pointer(&p), x.NumElements()/max(1, n), n)
	return y
}

func dropGradient(b backward) []Tensor {
	rate := b.numbers[0]
	return []Tensor{b.dropped(b.Contiguous(b.outGrads[0]), b.saved[0], rate, 1/(1-rate))}
}
