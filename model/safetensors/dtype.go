package safetensors

import (
	"math"
	"slices"
)

// DType is the name of a tensor's type in the file.
type DType string

// The supported types. A file with any other (8-bit floats, unsigned integers above a byte, complex numbers) is refused
// by name.
const (
	F64  DType = "F64"
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
	I32  DType = "I32"
	I16  DType = "I16"
	I8   DType = "I8"
	U8   DType = "U8"
	BOOL DType = "BOOL"
)

// layoutOrder is the order in which the reference lays out tensors: by falling alignment, and by its own list within
// one alignment.
var layoutOrder = []DType{I64, F64, F32, I32, BF16, F16, I16, I8, U8, BOOL}

var sizes = map[DType]int{F64: 8, I64: 8, F32: 4, I32: 4, F16: 2, BF16: 2, I16: 2, I8: 1, U8: 1, BOOL: 1}

// Size returns the bytes of one value, or 0 for a type that is not supported.
func (d DType) Size() int { return sizes[d] }

// IsFloat reports whether the type is a floating-point one.
func (d DType) IsFloat() bool { return d == F64 || d == F32 || d == F16 || d == BF16 }

func (d DType) rank() int { return slices.Index(layoutOrder, d) }

// float32FromBF16 is exact: bfloat16 is the upper half of a float32.
func float32FromBF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// bf16FromFloat32 rounds to the nearest bfloat16, ties to even; NaN stays NaN.
func bf16FromFloat32(f float32) uint16 {
	bits := math.Float32bits(f)
	if f != f {
		return uint16(bits>>16) | 0x0040
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32FromF16 is the value of the bits of a half-precision number. It is exact: every half-precision value,
// subnormal ones too, is a float32.
func Float32FromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0:
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// f16FromFloat32 rounds to the nearest half-precision value, ties to even. Beyond 65504 it gives infinity as IEEE 754
// does; NaN stays NaN.
func f16FromFloat32(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	bits &= 0x7fffffff
	switch {
	case bits > 0x7f800000:
		return sign | 0x7e00 | uint16(bits>>13&0x3ff)
	case bits >= 0x477ff000: // 65520: halfway between the largest half and the next power of two, ties away to infinity
		return sign | 0x7c00
	case bits < 0x38800000: // 2⁻¹⁴: below are the subnormal halves, multiples of 2⁻²⁴
		// Adding 0.5 makes the float32 unit in the last place exactly 2⁻²⁴, so the processor does the rounding.
		rounded := math.Float32frombits(bits) + 0.5
		return sign | uint16(math.Float32bits(rounded)-0x3f000000)
	}
	return sign | uint16((bits-(127-15)<<23+0xfff+bits>>13&1)>>13)
}
