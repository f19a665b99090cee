package gguf

import (
	"encoding/binary"
	"math"

	"popri/model/safetensors"
)

// A block of 32 values has one scale d, some also a minimum m, in half precision. The low four bits of byte i belong to
// value i, the high ones to value i+16. Products are rounded to float32 before anything is added: an explicit
// conversion keeps the compiler from fusing the two, so that every machine gives the same values.

func half(b []byte) float32 { return safetensors.Float32FromF16(binary.LittleEndian.Uint16(b)) }

func f32(dst []float32, b []byte) { dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func f16(dst []float32, b []byte) { dst[0] = half(b) }

func bf16(dst []float32, b []byte) {
	dst[0] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
}

// q40: d, 16 bytes of nibbles; d·(q-8).
func q40(dst []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:18] {
		dst[i] = d * float32(int(q&15)-8)
		dst[i+16] = d * float32(int(q>>4)-8)
	}
}

// q41: d, m, 16 bytes of nibbles; d·q + m.
func q41(dst []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for i, q := range b[4:20] {
		dst[i] = float32(d*float32(q&15)) + m
		dst[i+16] = float32(d*float32(q>>4)) + m
	}
}

// q50: d, 32 fifth bits, 16 bytes of nibbles; d·(q-16).
func q50(dst []float32, b []byte) {
	d, high := half(b), binary.LittleEndian.Uint32(b[2:])
	for i, q := range b[6:22] {
		dst[i] = d * float32(int(fifth(q&15, high, i))-16)
		dst[i+16] = d * float32(int(fifth(q>>4, high, i+16))-16)
	}
}

// q51: d, m, 32 fifth bits, 16 bytes of nibbles; d·q + m.
func q51(dst []float32, b []byte) {
	d, m, high := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:])
	for i, q := range b[8:24] {
		dst[i] = float32(d*float32(fifth(q&15, high, i))) + m
		dst[i+16] = float32(d*float32(fifth(q>>4, high, i+16))) + m
	}
}

// fifth puts bit i of high above the four bits of low.
func fifth(low byte, high uint32, i int) byte { return low | byte(high>>i&1)<<4 }

// q80: d, 32 signed bytes; d·q.
func q80(dst []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:34] {
		dst[i] = d * float32(int8(q))
	}
}

// nonlinear are the 16 levels of IQ4_NL, denser around zero.
var nonlinear = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// iq4nl: d, 16 bytes of nibbles, which choose a level.
func iq4nl(dst []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:18] {
		dst[i] = d * nonlinear[q&15]
		dst[i+16] = d * nonlinear[q>>4]
	}
}
