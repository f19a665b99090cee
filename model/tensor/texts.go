package tensor

// #include <stdlib.h>
// #include "torch.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// checkTexts returns the length of the longest text and panics unless the texts are the rows of x [tokens, ...].
func checkTexts(op string, x Tensor, starts []int32) int64 {
	most := int64(0)
	for i := range starts[1:] {
		most = max(most, int64(starts[i+1]-starts[i]))
	}
	if starts[0] != 0 || int64(starts[len(starts)-1]) != x.Size(0) || x.device() != CPU {
		refuse(op, "the texts must be its rows, on the CPU", x)
	}
	if x.DType() != Float32 && (x.DType() != BFloat16 || !CanPack(BFloat16)) {
		refuse(op, "it must be float32, or bfloat16 where the CPU has products of it", x)
	}
	return most
}

// textBias returns the kernel's view of what is added to the scores of texts of up to most tokens, and its width.
func (s *Scope) textBias(op string, bias Tensor, heads int, most int64) (*C.float, C.int64_t) {
	if !bias.Defined() {
		return nil, C.int64_t(most)
	}
	bias = s.Contiguous(s.To(bias, Float32))
	width := bias.Size(-1)
	if width < most || bias.NumElements() != int64(heads)*width*width {
		refuse(op, fmt.Sprintf("it is no bias of %d heads for texts of %d tokens", heads, most), bias)
	}
	return cfloats(bias.view32()), C.int64_t(width)
}

// AttendTexts does the attention within texts that are behind each other, without gradients, on the CPU. qkv is
// [tokens, 3·heads·dim]: queries, which carry the scale of the scores, keys and values, dim a multiple of 16, to which
// shift [3·heads·dim], if any, is added first. Text i has the tokens from starts[i] to starts[i+1]. bias, if any, is
// float32 [heads, most, most], added to the scores by position in the text, of at most most tokens. The result is of
// qkv's type, [tokens, heads·dim]; a text's does not depend on the others. In bfloat16 it needs [CanPack] of bfloat16,
// dim a multiple of 32, and no shift.
func (s *Scope) AttendTexts(qkv, shift Tensor, starts []int32, heads int, bias Tensor) Tensor {
	qkv = s.Contiguous(qkv)
	most := checkTexts("AttendTexts", qkv, starts)
	shape, step := qkv.Shape(), int64(16)
	if qkv.DType() == BFloat16 {
		step = 32
	}
	if len(shape) != 2 || shape[1]%(3*step*int64(heads)) != 0 {
		refuse("AttendTexts", fmt.Sprintf("it does not have the queries, keys and values of %d heads", heads), qkv)
	}
	if shift.Defined() && (shift.NumElements() != shape[1] || shift.DType() != Float32 || qkv.DType() != Float32) {
		refuse("AttendTexts", "what is added must be as wide, and both float32", qkv, shift)
	}
	if qkv.DType() == Float32 && !shift.Defined() {
		shift = s.Zeros(Float32, shape[1])
	}
	table, width := s.textBias("AttendTexts", bias, heads, most)
	dim := shape[1] / int64(3*heads)
	out := s.Empty(qkv.DType(), shape[0], int64(heads)*dim)
	in, to := C.at_data_ptr(qkv.c), C.at_data_ptr(out.c)
	s.parallel(len(starts)-1, func(from, end int) {
		if qkv.DType() == Float32 {
			scratch := make([]float32, C.popri_attend_float_scratch(C.int64_t(most), C.int64_t(dim)))
			C.popri_attend_float(C.int(from), C.int(end), (*C.int32_t)(&starts[0]), C.int(heads), C.int64_t(dim),
				(*C.float)(in), cfloats(shift.view32()), table, width, (*C.float)(to), cfloats(scratch))
			return
		}
		scratch := make([]byte, C.popri_attend_texts_scratch(C.int64_t(most), C.int64_t(dim)))
		C.popri_attend_texts(C.int(from), C.int(end), (*C.int32_t)(&starts[0]), C.int(heads), C.int64_t(dim),
			(*C.uint16_t)(in), table, width, cbool(MatrixUnit()), (*C.uint16_t)(to), unsafe.Pointer(&scratch[0]))
	})
	return out
}

// EncoderLayer is a layer of BERT: x ← norm(x + attention(x)), x ← norm(x + down(gelu(up(x)))), the norms LayerNorms.
// The weights are packed for bfloat16, biases and norms are float32 vectors.
type EncoderLayer struct {
	QKV, Out, Up, Down                 *Packed
	QKVBias, OutBias, UpBias, DownBias Tensor
	Norm, NormBias, Norm2, Norm2Bias   Tensor
}

// EncodeTexts runs layers over the embedded tokens x, bfloat16 [tokens, H], of texts that are behind each other, as
// [Scope.AttendTexts] has them, and returns the last layer's result. Heads are multiples of 32 wide. A text's result
// does not depend on the others.
func (s *Scope) EncodeTexts(x Tensor, starts []int32, layers []EncoderLayer, heads int, eps float64, bias Tensor) Tensor {
	most := checkTexts("EncodeTexts", x, starts)
	h := x.Size(-1)
	e := (*C.popri_encoder)(C.calloc(1, C.sizeof_popri_encoder))
	defer C.free(unsafe.Pointer(e))
	given := C.calloc(C.size_t(len(layers)), C.sizeof_popri_encoder_layer)
	defer C.free(given)
	inner := int64(0)
	list := unsafe.Slice((*C.popri_encoder_layer)(given), len(layers))
	for i := range layers {
		l, c := &layers[i], &list[i]
		inner = l.Up.Out
		for _, p := range [][3]int64{{l.QKV.In, l.QKV.Out, 3 * h}, {l.Out.In, l.Out.Out, h},
			{l.Up.In, l.Up.Out, layers[0].Up.Out},
			{l.Down.Out, l.Down.In, inner}} {
			if p[0] != h || p[1] != p[2] {
				refuse("EncodeTexts", fmt.Sprintf("layer %d does not fit", i), x)
			}
		}
		vector := func(t Tensor, n int64) *C.float {
			if t.NumElements() != n || t.DType() != Float32 {
				refuse("EncodeTexts", fmt.Sprintf("layer %d does not fit", i), t)
			}
			return cfloats(t.view32())
		}
		c.qkv, c.out = (*C.uint16_t)(l.QKV.data.pointer()), (*C.uint16_t)(l.Out.data.pointer())
		c.up, c.down = (*C.uint16_t)(l.Up.data.pointer()), (*C.uint16_t)(l.Down.data.pointer())
		c.qkv_bias, c.out_bias = vector(l.QKVBias, 3*h), vector(l.OutBias, h)
		c.up_bias, c.down_bias = vector(l.UpBias, inner), vector(l.DownBias, h)
		c.norm, c.norm_bias = vector(l.Norm, h), vector(l.NormBias, h)
		c.norm2, c.norm2_bias = vector(l.Norm2, h), vector(l.Norm2Bias, h)
	}
	e.layers, e.heads, e.tiles = C.int(len(layers)), C.int(heads), cbool(MatrixUnit())
	e.hidden, e.inner, e.eps = C.int64_t(h), C.int64_t(inner), C.float(eps)
	e.bias, e.width = s.textBias("EncodeTexts", bias, heads, most)
	e.layer = (*C.popri_encoder_layer)(given)
	y := s.Clone(s.Contiguous(x))
	scratch := s.Empty(Uint8, int64(C.popri_encode_scratch(e, C.int64_t(most))))
	C.popri_encode(e, (*C.int32_t)(&starts[0]), C.int(len(starts)-1), C.int64_t(most),
		(*C.uint16_t)(C.at_data_ptr(y.c)), C.at_data_ptr(scratch.c))
	return y
}
