package tensor

// #include <stdlib.h>
// #include "torch.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// DecodeCache is one layer's keys and values while sequences are sampled: one shared part for each prompt and one own
// part for each slot. Keys are stored with the token as the last dimension, so that scores are computed along it; rooms
// and Dim are multiples of 16, the kernel's lanes.
type DecodeCache struct {
	Heads, KVHeads, Dim int
	Scale               float32
	DType               DType  // of what is stored: Float32 or BFloat16
	PrefixK, PrefixV    Tensor // [prefixes, KVHeads, Dim, PrefixRoom], [prefixes, KVHeads, PrefixRoom, Dim]
	PrefixRoom          int
	SuffixK, SuffixV    Tensor // [slots, KVHeads, Dim, SuffixRoom], [slots, KVHeads, SuffixRoom, Dim]
	SuffixRoom          int
}

// Rows says, for each row of a decoding step, where its keys and values lie.
type Rows struct {
	Slot, SuffixLen, Prefix, PrefixLen []int32
}

// parallel splits n rows over the scope's threads. The split does not change any row's result.
func (s *Scope) parallel(n int, f func(from, to int)) {
	k := min(s.threads, n)
	if k <= 1 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	for i := range k {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f(i*n/k, (i+1)*n/k)
		}()
	}
	wg.Wait()
}

// Attend does one decoding step of attention. qkv is float32 [R, (Heads+2·KVHeads)·Dim]: each row's query, key and value.
// The key and value are stored at SuffixLen, and the result [R, Heads·Dim] is the attention over the prompt's part, the
// row's own part and the new token.
func (c *DecodeCache) Attend(s *Scope, qkv Tensor, rows Rows) Tensor {
	if c.Dim%16 != 0 || c.PrefixRoom%16 != 0 || c.SuffixRoom%16 != 0 || (c.DType != Float32 && c.DType != BFloat16) {
		panic(&Error{Op: "Attend", Shapes: []string{qkv.describe()}, Text: fmt.Sprintf("head dimension %d and rooms %d and %d must be multiples of 16, %v not float32 or bfloat16", c.Dim, c.PrefixRoom, c.SuffixRoom, c.DType)})
	}
	if !s.native("Attend", qkv, c.PrefixK, c.PrefixV, c.SuffixK, c.SuffixV) {
		return c.portable(s, qkv, rows)
	}
	n := len(rows.Slot)
	out := s.Empty(Float32, int64(n), int64(c.Heads*c.Dim))
	in, o := qkv.View32(), out.View32()
	layer := (*C.popri_cache)(C.malloc(C.sizeof_popri_cache))
	defer C.free(unsafe.Pointer(layer))
	*layer = C.popri_cache{heads: C.int(c.Heads), kv_heads: C.int(c.KVHeads), dim: C.int(c.Dim), scale: C.float(c.Scale), bf16: cbool(c.DType == BFloat16),
		prefix_k: C.at_data_ptr(c.PrefixK.c), prefix_v: C.at_data_ptr(c.PrefixV.c), prefix_room: C.int(c.PrefixRoom),
		suffix_k: C.at_data_ptr(c.SuffixK.c), suffix_v: C.at_data_ptr(c.SuffixV.c), suffix_room: C.int(c.SuffixRoom)}
	s.parallel(n, func(from, to int) {
		scratch := make([]float32, 5*(c.PrefixRoom+c.SuffixRoom+32))
		C.popri_attend(layer, C.int(from), C.int(to), cfloats(in), cfloats(o), cints(rows.Slot), cints(rows.SuffixLen),
			cints(rows.Prefix), cints(rows.PrefixLen), cfloats(scratch))
	})
	return out
}

func cfloats(x []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(x))) }
func cints(x []int32) *C.int32_t   { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(x))) }
