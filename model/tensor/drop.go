package tensor

// #include "torch.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"
)

// Dropout hides a share of elements and scales the others up by 1/(1 − share) (Srivastava et al. 2014). Which ones are
// hidden follows from the key alone, and from an element's row and column.
type Dropout struct {
	Share float64 // from 0, which hides none, up to 1
	Key   uint64
}

// hiddenBelow is a share of 2^32.
func hiddenBelow(share float64) C.uint32_t {
	return C.uint32_t(min(math.Round(share*(1<<32)), math.MaxUint32))
}

var dropKernel = kernel{C.popri_range(C.popri_drop_rows), C.CString("popri::drop"), C.GPU_drop_rows}

// Drop hides a share of x [..., n]. It divides x into as many equal parts of whole rows as there are keys; what is
// hidden of a part follows from its key, and a longer part begins with what a shorter one has. So rows along the first
// axis keep theirs whatever rows they are padded with. It has a gradient.
func (s *Scope) Drop(x Tensor, share float64, keys ...uint64) Tensor {
	if share == 0 {
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
		kept := host.dropped(host.Full(Float32, 1, rows, n), host.FromInt64(list, int64(len(list))), share, 1)
		mask := s.FromFloat32(kept.View32(), x.Shape()...)
		return s.MulScalar(s.Mul(x, s.To(mask, x.DType())), 1/(1-share))
	}
	saved := s.FromInt64(list, int64(len(list)))
	y := s.dropped(x, saved, share, 1/(1-share))
	s.record(step{op: stepDrop, numbers: []float64{share}, saved: []Tensor{saved}, inputs: []Tensor{x},
		outputs: []Tensor{y}})
	return y
}

func (s *Scope) dropped(x, keys Tensor, share, factor float64) Tensor {
	n := x.Size(-1)
	rows := x.NumElements() / max(1, n)
	y := s.Empty(x.DType(), x.Shape()...)
	p := C.popri_drop{bf16: cbool(x.DType() == BFloat16), limit: hiddenBelow(share), factor: C.float(factor),
		n: C.int64_t(n), part: C.int64_t(rows / keys.NumElements()), keys: (*C.int64_t)(keys.pointer()), x: x.pointer(),
		y: y.pointer()}
	s.shared(dropKernel, unsafe.Pointer(&p), rows, n)
	return y
}

func dropGradient(b backward) []Tensor {
	share := b.numbers[0]
	return []Tensor{b.dropped(b.Contiguous(b.slopes[0]), b.saved[0], share, 1/(1-share))}
}
