package tensor

// #include <stdlib.h>
// #include "torch.h"
import "C"

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// DecodeCache is one layer's keys and values while sequences are sampled: one shared part for each prompt and one own
// part for each slot. Keys are stored with the token as the last dimension, so that scores are computed along it; rooms
// and Dim are multiples of 16, the kernel's lanes.
//
// With Tiles, which need a [MatrixUnit] and bfloat16, the matrix unit does the work: PrefixRoom and Dim are multiples
// of 32, keys and values are stored as it reads them, and prompts come in by [DecodeCache.Prefill].
type DecodeCache struct {
	Heads, KVHeads, Dim int
	Scale               float32
	Cap                 float32 // scores s become Cap·tanh(s/Cap) before the softmax; 0 for as they are. Not with Tiles
	DType               DType   // type of the stored values: Float32 or BFloat16
	Tiles               bool
	// Whole computes over all of PrefixRoom, so that a row's bits do not depend on how long the other rows' prompts
	// are, which libtorch's products would otherwise let them. The kernels' never do.
	Whole            bool
	Head             int    // width of a head in the input, up to Dim; the rest is zeros
	PrefixK, PrefixV Tensor // [prefixes, KVHeads, Dim, PrefixRoom], [prefixes, KVHeads, PrefixRoom, Dim]
	PrefixRoom       int
	SuffixK, SuffixV Tensor // [slots, KVHeads, Dim, SuffixRoom], [slots, KVHeads, SuffixRoom, Dim]
	SuffixRoom       int
}

// Rows says, for each row of a decoding step, where its keys and values are.
type Rows struct {
	Slot, SuffixLen, Prefix, PrefixLen []int32
	sent                               *sentRows
}

// sentRows is the same on a GPU.
type sentRows struct {
	all   Tensor // int64 [4, rows], in the order of the fields
	runs  Tensor // int64 [n, 3]: see popri_gpu_step
	alike int64  // queries of a head of keys for each row
}

// On sends what r says to the GPU, where its layers use it; else it returns r.
func (r Rows) On(s *Scope, c *DecodeCache) Rows {
	if !s.gpu || len(r.Slot) == 0 {
		return r
	}
	n, each := len(r.Slot), c.Heads/c.KVHeads
	var all, runs []int64
	for _, list := range [][]int32{r.Slot, r.SuffixLen, r.Prefix, r.PrefixLen} {
		for _, x := range list {
			all = append(all, int64(x))
		}
	}
	for from := 0; from < n; {
		to := from + 1
		for to < n && r.Prefix[to] == r.Prefix[from] {
			to++
		}
		queries := (to - from) * each
		for i, of := 0, (queries+C.GPU_QUERIES-1)/C.GPU_QUERIES; i < of; i++ { // nearly equal runs
			q, end := i*queries/of, (i+1)*queries/of
			runs = append(runs, int64(from+q/each), int64(q%each), int64(end-q))
		}
		from = to
	}
	r.sent = &sentRows{s.FromInt64(all, 4, int64(n)), s.FromInt64(runs, int64(len(runs)/3), 3), int64(each)}
	return r
}

// parallel splits n rows over the scope's threads. The split does not change any row's result.
func (s *Scope) parallel(n int, f func(from, to int)) {
	k := min(s.threads, n)
	if k <= 1 {
		f(0, n)
		return
	}
	region, end := waits()
	defer end()
	var wg sync.WaitGroup
	for i := range k {
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer helps(region)()
			f(i*n/k, (i+1)*n/k)
		}()
	}
	wg.Wait()
}

// kernel returns the cache in the kernels' form; the caller frees it.
func (c *DecodeCache) kernel() *C.popri_cache {
	layer := (*C.popri_cache)(C.malloc(C.sizeof_popri_cache))
	*layer = C.popri_cache{heads: C.int(c.Heads), kv_heads: C.int(c.KVHeads), dim: C.int(c.Dim),
		head: C.int(c.Head), scale: C.float(c.Scale), cap: C.float(c.Cap), bf16: cbool(c.DType == BFloat16),
		prefix_k: C.at_data_ptr(c.PrefixK.c), prefix_v: C.at_data_ptr(c.PrefixV.c), prefix_room: C.int(c.PrefixRoom),
		suffix_k: C.at_data_ptr(c.SuffixK.c), suffix_v: C.at_data_ptr(c.SuffixV.c), suffix_room: C.int(c.SuffixRoom)}
	return layer
}

// onTiles splits n items over the threads, calls f for each part with scratch memory of its own, and returns the
// bfloat16 tensor of the given shape that they fill. It panics unless the cache has Tiles and qkv has its shape.
func (c *DecodeCache) onTiles(s *Scope, op string, qkv Tensor, n int, shape []int64,
	f func(layer *C.popri_cache, from, to C.int, in *C.float, out *C.uint16_t, scratch unsafe.Pointer)) Tensor {
	if c.DType != BFloat16 || !MatrixUnit() || c.Dim%32 != 0 || c.PrefixRoom%32 != 0 || c.SuffixRoom%16 != 0 ||
		c.Head > c.Dim || qkv.Size(-1) != int64((c.Heads+2*c.KVHeads)*c.Head) {
		refuse(op, fmt.Sprintf("a cache of %v, %d heads and %d of keys, %d of %d wide, rooms %d and %d does not fit "+
			"the matrix unit", c.DType, c.Heads, c.KVHeads, c.Head, c.Dim, c.PrefixRoom, c.SuffixRoom), qkv)
	}
	out := s.Empty(BFloat16, shape...)
	in, layer := qkv.view32(), c.kernel()
	defer C.free(unsafe.Pointer(layer))
	s.parallel(n, func(from, to int) {
		scratch := make([]float32, C.popri_attend_scratch(layer)/4)
		f(layer, C.int(from), C.int(to), cfloats(in), (*C.uint16_t)(C.at_data_ptr(out.c)), unsafe.Pointer(&scratch[0]))
	})
	return out
}

// Prefill does the causal attention within prompts, with Tiles. qkv is float32 [B, T, (Heads+2·KVHeads)·Head], of which
// lengths count in each row. The keys and values of prompt i go to prefix prefixes[i], and the result is bfloat16 [B, T,
// Heads·Head].
func (c *DecodeCache) Prefill(s *Scope, qkv Tensor, prefixes, lengths []int32) Tensor {
	shape := qkv.Shape()
	for i, n := range lengths {
		if !c.Tiles || len(shape) != 3 || int(shape[0]) != len(lengths) || len(prefixes) != len(lengths) || n < 1 ||
			int64(n) > shape[1] || int(n) > c.PrefixRoom || int64(prefixes[i]) >= c.PrefixK.Size(0) {
			refuse("Prefill", fmt.Sprintf("prompt %d of %d tokens for prefix %d does not fit", i, n, prefixes[i]), qkv)
		}
	}
	return c.onTiles(s, "Prefill", qkv, len(lengths), []int64{shape[0], shape[1], int64(c.Heads * c.Head)},
		func(layer *C.popri_cache, from, to C.int, in *C.float, out *C.uint16_t, scratch unsafe.Pointer) {
			C.popri_prefill_tiles(layer, from, to, C.int(shape[1]), in, out, cints(prefixes), cints(lengths), scratch)
		})
}

// Attend does one decoding step of attention. qkv is float32 [R, (Heads+2·KVHeads)·Head]: each row's query, key and
// value. The key and value are stored at SuffixLen, and the result [R, Heads·Head] is the attention over the prompt's
// part, the row's own part and the new token, float32 or, with Tiles, bfloat16.
func (c *DecodeCache) Attend(s *Scope, qkv Tensor, rows Rows) Tensor {
	defer Attention.Enter()()
	n := len(rows.Slot)
	if c.Tiles && c.Cap != 0 {
		panic(&Error{Op: "Attend", Text: "capped scores on the matrix unit"})
	}
	if c.Tiles {
		return c.onTiles(s, "Attend", qkv, n, []int64{int64(n), int64(c.Heads * c.Head)},
			func(layer *C.popri_cache, from, to C.int, in *C.float, out *C.uint16_t, scratch unsafe.Pointer) {
				C.popri_attend_tiles(layer, from, to, in, out, cints(rows.Slot), cints(rows.SuffixLen),
					cints(rows.Prefix), cints(rows.PrefixLen), scratch)
			})
	}
	if c.Dim%16 != 0 || c.PrefixRoom%16 != 0 || c.SuffixRoom%16 != 0 ||
		(c.DType != Float32 && c.DType != BFloat16) || c.Head < 1 || c.Head > c.Dim {
		refuse("Attend", fmt.Sprintf("head dimension %d and rooms %d and %d must be multiples of 16, heads %d wide fit "+
			"in, %v be float32 or bfloat16", c.Dim, c.PrefixRoom, c.SuffixRoom, c.Head, c.DType), qkv)
	}
	if c.Head == c.Dim {
		return c.attend(s, qkv, rows)
	}
	// Zeros fill up the heads, which changes no product.
	head, dim, heads := int64(c.Head), int64(c.Dim), int64(c.Heads+2*c.KVHeads)
	wide := s.View(qkv, -1, head)
	wide = s.Cat(1, wide, s.Zeros(Float32, wide.Size(0), dim-head))
	y := s.View(c.attend(s, s.View(wide, -1, heads*dim), rows), int64(n), int64(c.Heads), dim)
	return s.Reshape(s.Narrow(y, 2, 0, head), int64(n), int64(c.Heads)*head)
}

// attend is Attend for heads as wide as they are stored, without Tiles.
func (c *DecodeCache) attend(s *Scope, qkv Tensor, rows Rows) Tensor {
	n := len(rows.Slot)
	if s.launches(qkv) && n > 0 && c.Dim <= C.GPU_DIM {
		return c.gpu(s, qkv, rows)
	}
	if !s.native("Attend", qkv, c.PrefixK, c.PrefixV, c.SuffixK, c.SuffixV) {
		return c.portable(s, qkv, rows)
	}
	out := s.Empty(Float32, int64(n), int64(c.Heads*c.Dim))
	in, o := qkv.view32(), out.view32()
	layer := c.kernel()
	defer C.free(unsafe.Pointer(layer))
	s.parallel(n, func(from, to int) {
		scratch := make([]float32, C.ATTEND_QUERIES*(c.PrefixRoom+c.SuffixRoom+32))
		C.popri_attend(layer, C.int(from), C.int(to), cfloats(in), cfloats(o), cints(rows.Slot), cints(rows.SuffixLen),
			cints(rows.Prefix), cints(rows.PrefixLen), cfloats(scratch))
	})
	return out
}

// gpu is attend with a GPU's kernel.
func (c *DecodeCache) gpu(s *Scope, qkv Tensor, rows Rows) Tensor {
	if each := int64(c.Heads / c.KVHeads); rows.sent == nil || rows.sent.alike != each {
		rows = rows.On(s, c)
	}
	n, runs := int64(len(rows.Slot)), rows.sent.runs.Size(0)*int64(c.KVHeads)
	out := s.Empty(Float32, n, int64(c.Heads*c.Dim))
	layer := c.kernel()
	defer C.free(unsafe.Pointer(layer))
	longest := slices.Max(rows.PrefixLen) + slices.Max(rows.SuffixLen) + 1
	list := func(i int64) *C.int64_t { return s.Narrow(rows.sent.all, 0, i, 1).longs() }
	p := C.popri_gpu_step{cache: *layer, qkv: qkv.floats(), out: out.floats(), slot: list(0), suffix_len: list(1),
		prefix: list(2), prefix_len: list(3), runs: rows.sent.runs.longs(), room: C.int64_t(longest),
		scores: s.Empty(Float32, runs, int64(longest), C.GPU_QUERIES).floats()}
	launch(attendStepKernel, unsafe.Pointer(&p), runs, runs, C.GPU_THREADS)
	return out
}

func cfloats(x []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(x))) }
func cints(x []int32) *C.int32_t   { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(x))) }
