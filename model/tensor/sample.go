package tensor

// #include <stdlib.h>
// #include "torch.h"
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"popri/internal/numeric"
)

// Sampler draws tokens from logits. It is not safe for concurrent use.
type Sampler struct {
	Temperature float64 // divides the logits
	TopK        int     // keep this many likeliest tokens; 0 keeps all
	// of those, keep the smallest set of the likeliest whose probability reaches TopP; 0 or 1 keeps all
	TopP   float64
	Banned []int32 // tokens that rows with the ban do not draw
	cut    truncation
}

// Draw takes one token for each of the first len(u) rows of float32 logits [R, V], which it may overwrite: at u[r] in
// [0, 1) of the cumulative distribution of softmax(logits/temperature), truncated to the likeliest; u[r] < 0 takes the
// maximum, the first of equals. ban[r], if ban is not nil, leaves the banned tokens out. A row whose logits are
// unusable (NaN, no finite maximum) yields -1.
func (d *Sampler) Draw(s *Scope, logits Tensor, u []float64, ban []bool) []int32 {
	shape := logits.Shape()
	if len(shape) != 2 || shape[0] < int64(len(u)) || shape[1] < 1 || logits.DType() != Float32 ||
		C.at_is_contiguous(logits.c) == 0 || ban != nil && len(ban) != len(u) {
		refuse("Draw", fmt.Sprintf("for %d tokens it must be contiguous float32 [R, V]", len(u)), logits)
	}
	defer draws()()
	out := make([]int32, len(u))
	if len(u) == 0 {
		return out
	}
	if s.launches(logits) && (d.TopK <= 0 || d.TopK >= int(shape[1])) {
		d.gpu(s, logits, u, ban, out)
		return out
	}
	if !s.native("Draw", logits) {
		d.portable(s, logits, u, ban, out)
		return out
	}
	vocab := int(shape[1])
	rows := logits.view32()
	topP := d.TopP > 0 && d.TopP < 1
	for i := range u {
		row := rows[i*vocab : (i+1)*vocab]
		if ban != nil && ban[i] {
			for _, id := range d.Banned {
				row[id] = float32(math.Inf(-1))
			}
		}
		if u[i] >= 0 {
			d.cut.keep(row, d.TopK)
		}
	}
	k := C.float(1)
	if d.Temperature > 0 {
		k = C.float(1 / d.Temperature)
	}
	s.parallel(len(u), func(from, to int) {
		if topP {
			scratch := C.malloc(C.size_t(C.popri_sample_top_scratch(C.int(vocab)))) // Go would set a megabyte to zero
			defer C.free(scratch)
			C.popri_sample_top(C.int(from), C.int(to), C.int(vocab), cfloats(rows), k, C.double(d.TopP),
				(*C.double)(&u[0]), cints(out), scratch)
			return
		}
		parts := (vocab + C.SAMPLE_PART - 1) / C.SAMPLE_PART
		scratch := make([]float32, 3*parts+C.SAMPLE_PART)
		C.popri_sample(C.int(from), C.int(to), C.int(vocab), cfloats(rows), k, (*C.double)(&u[0]), cints(out), cfloats(scratch))
	})
	return out
}

// Streams reports whether [Sampler.DrawFrom] draws without keeping the logits of products of w.
func (d *Sampler) Streams(w *Packed) bool {
	return MatrixUnit() && !w.scales.Defined() && !w.Gated && d.Temperature > 0 && (d.TopP <= 0 || d.TopP >= 1) &&
		(d.TopK <= 0 || d.TopK >= int(w.Out))
}

// DrawFrom is [Sampler.Draw] from the float32 product of x [R, in] and w, and draws the same tokens. It needs
// [Sampler.Streams] and every u[r] in [0, 1): a row's logits are computed part by part, and none are kept in memory.
func (d *Sampler) DrawFrom(s *Scope, w *Packed, x Tensor, u []float64, ban []bool) []int32 {
	x = s.Contiguous(x)
	if !d.Streams(w) || len(x.Shape()) != 2 || x.Size(0) < int64(len(u)) || ban != nil && len(ban) != len(u) {
		refuse("DrawFrom", fmt.Sprintf("for %d tokens of %d at "+
			"temperature %g, top_p %g, top_k %d", len(u), w.Out, d.Temperature, d.TopP, d.TopK), x)
	}
	out := make([]int32, len(u))
	if len(u) == 0 {
		return out
	}
	g := w.inputs(x, int64(len(u)))
	defer C.free(unsafe.Pointer(g))
	draws := (*C.popri_draws)(C.calloc(1, C.sizeof_popri_draws))
	defer C.free(unsafe.Pointer(draws))
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(&u[0])
	pins.Pin(&out[0])
	draws.k, draws.u, draws.out = C.float(1/d.Temperature), (*C.double)(&u[0]), cints(out)
	if len(d.Banned) > 0 && slices.Contains(ban, true) {
		pins.Pin(&ban[0])
		pins.Pin(&d.Banned[0])
		draws.ban, draws.banned, draws.bans = (*C.uint8_t)(unsafe.Pointer(&ban[0])), cints(d.Banned), C.int64_t(len(d.Banned))
	}
	C.popri_draw_run(g, draws, C.at_data_ptr(s.Empty(Uint8, int64(C.popri_draw_scratch(g))).c))
	return out
}

// gpu is [Sampler.Draw] without TopK.
func (d *Sampler) gpu(s *Scope, logits Tensor, u []float64, ban []bool, out []int32) {
	n := int64(len(u))
	s.Do(func() {
		drawn := s.Empty(Int64, n)
		p := C.popri_gpu_draws{vocab: C.int64_t(logits.Size(1)), logits: logits.floats(), k: 1, p: 1,
			u: (*C.double)(s.fromFloat64(u, n).pointer()), drawn: drawn.longs()}
		if d.Temperature > 0 {
			p.k = C.float(1 / d.Temperature)
		}
		if d.TopP > 0 {
			p.p = C.double(d.TopP)
		}
		if len(d.Banned) > 0 && slices.Contains(ban, true) {
			ids := numeric.Convert[int64](d.Banned)
			p.ban, p.banned = (*C.uint8_t)(s.FromBools(ban, n).pointer()), s.FromInt64(ids, int64(len(ids))).longs()
			p.bans = C.int64_t(len(ids))
		}
		launch(sampleKernel, unsafe.Pointer(&p), n, n, 256)
		for i, id := range s.Int64s(drawn) {
			out[i] = int32(id)
		}
	})
}
