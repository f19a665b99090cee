package tensor

// #include "torch.h"
import "C"

import (
	"fmt"
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

// Drop applies dropout to x [..., n], which has one equal part of whole rows for each key. The mask of a part follows
// from its key, and the mask of a longer part begins with that of a shorter one, so padding does not change it. It has
// a gradient.
func (s *Scope) Drop(x Tensor, rate float64, keys ...uint64) Tensor {
	if rate == 0 {
		return x
	}
	n := x.Size(-1)
	rows := x.NumElements() / max(1, n)
	x = s.Contiguous(x)
	fusable("Drop", x, len(keys) > 0 && rows%int64(len(keys)) == 0,
		fmt.Sprintf("of rows for %d keys", len(keys)))
	list := make([]int64, len(keys))
	for i, k := range keys {
		list[i] = int64(k)
	}
	if !s.fused("Drop", x) {
		host := &Scope{device: CPU, threads: 1}
		defer host.free()
		kept := host.dropped(host.Full(Float32, 1, rows, n), host.FromInt64(list, int64(len(list))), rate, 1)
		mask := s.FromFloat32(kept.view32(), x.Shape()...)
		return s.MulScalar(s.Mul(x, s.To(mask, x.DType())), 1/(1-rate))
	}
	saved := s.FromInt64(list, int64(len(list)))
	y := s.dropped(x, saved, rate, 1/(1-rate))
	s.record(step{op: stepDrop, numbers: []float64{rate}, saved: []Tensor{saved}, inputs: []Tensor{x},
		outputs: []Tensor{y}})
	return y
}

func (s *Scope) dropped(x, keys Tensor, rate, factor float64) Tensor {
	n := x.Size(-1)
	rows := x.NumElements() / max(1, n)
	y := s.Empty(x.DType(), x.Shape()...)
	p := C.popri_drop{bf16: cbool(x.DType() == BFloat16), limit: dropBelow(rate), factor: C.float(factor),
		n: C.int64_t(n), part: C.int64_t(rows / keys.NumElements()), keys: (*C.int64_t)(keys.pointer()), x: x.pointer(),
		y: y.pointer()}
	s.shared(dropKernel, unsafe.Pointer(&p), rows, n)
	return y
}

func dropGradient(b backward) []Tensor {
	rate := b.numbers[0]
	return []Tensor{b.dropped(b.Contiguous(b.outGrads[0]), b.saved[0], rate, 1/(1-rate))}
}
