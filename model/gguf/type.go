package gguf

import (
	"fmt"
	"strings"

	"popri/internal/numeric"
)

// Type is the type of a tensor's values, by ggml's number.
type Type uint32

// The types that are read.
const (
	F32   Type = 0
	F16   Type = 1
	Q4_0  Type = 2
	Q4_1  Type = 3
	Q5_0  Type = 6
	Q5_1  Type = 7
	Q8_0  Type = 8
	Q2_K  Type = 10
	Q3_K  Type = 11
	Q4_K  Type = 12
	Q5_K  Type = 13
	Q6_K  Type = 14
	IQ4NL Type = 20
	BF16  Type = 30
)

// layout says how values of a type are stored: how many values, and how many bytes, a block has.
type layout struct {
	name          string
	values, bytes int
	dequantize    func(dst []float32, block []byte) // one block
}

var layouts = map[Type]layout{
	F32:   {"F32", 1, 4, f32},
	F16:   {"F16", 1, 2, f16},
	BF16:  {"BF16", 1, 2, bf16},
	Q4_0:  {"Q4_0", 32, 18, q40},
	Q4_1:  {"Q4_1", 32, 20, q41},
	Q5_0:  {"Q5_0", 32, 22, q50},
	Q5_1:  {"Q5_1", 32, 24, q51},
	Q8_0:  {"Q8_0", 32, 34, q80},
	IQ4NL: {"IQ4_NL", 32, 18, iq4nl},
	Q2_K:  {"Q2_K", 256, 84, q2k},
	Q3_K:  {"Q3_K", 256, 110, q3k},
	Q4_K:  {"Q4_K", 256, 144, q4k},
	Q5_K:  {"Q5_K", 256, 176, q5k},
	Q6_K:  {"Q6_K", 256, 210, q6k},
}

// Types lists the types that are read, in the order of messages.
var Types = []Type{F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4NL, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K}

// unread names the types that ggml has and that are not read, so that a message can name them.
var unread = map[Type]string{9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
	21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M",
	34: "TQ1_0",
	35: "TQ2_0",
	39: "MXFP4", 40: "NVFP4"}

// String returns ggml's name of the type.
func (t Type) String() string {
	if l, ok := layouts[t]; ok {
		return l.name
	}
	if name, ok := unread[t]; ok {
		return name
	}
	return fmt.Sprintf("number %d", uint32(t))
}

// Quantized reports whether values of the type share a scale with others of a block.
func (t Type) Quantized() bool { return layouts[t].values > 1 }

// Block returns the number of values and of bytes of a block; 0, 0 for a type that is not read.
func (t Type) Block() (values, bytes int) { return layouts[t].values, layouts[t].bytes }

func typeNames() string { return strings.Join(numeric.Map(Types, Type.String), ", ") }

// Dequantize turns blocks into values. dst must hold as many values as src holds blocks; what does not agree, and a
// type that is not read, gives an error.
func Dequantize(t Type, dst []float32, src []byte) error {
	l, ok := layouts[t]
	if !ok {
		return fmt.Errorf("gguf: the type %s is not supported (supported: %s)", t, typeNames())
	}
	if len(src)%l.bytes != 0 || len(dst) != len(src)/l.bytes*l.values {
		return fmt.Errorf("gguf: %d bytes of %s (%d a block) do not hold %d values (%d a block)", len(src), t, l.bytes,
			len(dst), l.values)
	}
	for ; len(src) > 0; dst, src = dst[l.values:], src[l.bytes:] {
		l.dequantize(dst[:l.values], src[:l.bytes])
	}
	return nil
}
