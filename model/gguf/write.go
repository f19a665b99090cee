package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"popri/internal/atomicfile"
	"popri/model/safetensors"
)

// Entry is a metadata entry to write. Its value is a uint32, float32, bool, string, []string, []int32 or []float32.
type Entry struct {
	Key   string
	Value any
}

// Stream is a tensor whose blocks are made while they are written, so that they are never in memory together.
type Stream struct {
	Tensor
	// Write writes the blocks, in row-major order: as many bytes as type and shape take.
	Write func(w io.Writer) error
}

// Write writes a file of version 3, which replaces path in one step (see internal/atomicfile). Entries and tensors keep
// their order. An error of a stream leaves path as it was, and can be found by errors.Is and errors.As.
func Write(path string, entries []Entry, tensors []Stream) error {
	err := atomicfile.Write(path, func(w io.Writer) error { return Encode(w, entries, tensors) })
	if err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	return nil
}

// Encode writes the bytes of a file.
func Encode(to io.Writer, entries []Entry, tensors []Stream) error {
	w := &writer{w: to}
	w.text(magic)
	w.numbers(uint32(3), uint64(len(tensors)), uint64(len(entries)))
	for _, e := range entries {
		w.sized(e.Key)
		w.value(e.Value)
	}
	offset := int64(0)
	for _, t := range tensors {
		w.sized(t.Name)
		w.numbers(uint32(len(t.Shape)))
		for i := range t.Shape {
			w.numbers(uint64(t.Shape[len(t.Shape)-1-i]))
		}
		w.numbers(uint32(t.Type), uint64(offset))
		offset += padded(t.size())
	}
	for _, t := range tensors {
		w.text(string(make([]byte, padded(w.n)-w.n)))
		begin := w.n
		if w.err == nil {
			w.err = t.Write(w)
		}
		if n := w.n - begin; w.err == nil && n != t.size() {
			w.err = fmt.Errorf("tensor %q: %v of %s take %d bytes, but %d were written", t.Name, t.Shape, t.Type, t.size(), n)
		}
	}
	return w.err
}

func padded(n int64) int64 { return (n + defaultAlignment - 1) / defaultAlignment * defaultAlignment }

// size is the number of bytes of the tensor's blocks.
func (t Tensor) size() int64 {
	values, bytes := t.Type.Block()
	return t.NumElements() / int64(values) * int64(bytes)
}

// writer counts bytes and keeps the first error.
type writer struct {
	w   io.Writer
	n   int64
	err error
}

func (w *writer) Write(b []byte) (n int, err error) {
	if w.err == nil {
		n, w.err = w.w.Write(b)
		w.n += int64(n)
	}
	return n, w.err
}

func (w *writer) text(s string) { io.WriteString(w, s) }

func (w *writer) sized(s string) {
	w.numbers(uint64(len(s)))
	w.text(s)
}

func (w *writer) numbers(list ...any) {
	for _, n := range list {
		if err := binary.Write(w, binary.LittleEndian, n); w.err == nil {
			w.err = err
		}
	}
}

func (w *writer) value(v any) {
	array := func(k kind, n int) { w.numbers(kindArray, k, uint64(n)) }
	switch v := v.(type) {
	case uint32:
		w.numbers(kindUint32, v)
	case float32:
		w.numbers(kindFloat32, v)
	case bool:
		w.numbers(kindBool, v)
	case string:
		w.numbers(kindText)
		w.sized(v)
	case []string:
		array(kindText, len(v))
		for _, s := range v {
			w.sized(s)
		}
	case []int32:
		array(kindInt32, len(v))
		w.numbers(v)
	case []float32:
		array(kindFloat32, len(v))
		w.numbers(v)
	default:
		panic(fmt.Sprintf("gguf: a metadata value of type %T", v))
	}
}

// Written lists the types that [Append] makes.
var Written = []Type{F16, Q8_0, Q4_0, BF16, F32}

// Append appends the blocks of values, whose number is a multiple of a block's, rounded as ggml rounds them. A type that
// is not among [Written] appends nothing.
func Append(out []byte, t Type, values []float32) []byte {
	switch t {
	case F32, F16, BF16:
		return safetensors.AppendFloat32s(out, safetensors.DType(t.String()), values)
	case Q8_0, Q4_0:
		for ; len(values) >= 32; values = values[32:] {
			if t == Q8_0 {
				out = appendQ80(out, values[:32])
			} else {
				out = appendQ40(out, values[:32])
			}
		}
	}
	return out
}

// largest returns the value that is farthest from zero, the first of equal ones.
func largest(block []float32) (most float32) {
	for _, v := range block {
		if math.Abs(float64(v)) > math.Abs(float64(most)) {
			most = v
		}
	}
	return most
}

// scale appends d in half precision, and returns what values are multiplied by.
func scale(out []byte, d float32) ([]byte, float32) {
	out = safetensors.AppendFloat32s(out, safetensors.F16, []float32{d})
	if d == 0 {
		return out, 0
	}
	return out, 1 / d
}

// appendQ80 rounds to multiples of d, of which the largest value is 127, halves away from zero.
func appendQ80(out []byte, block []float32) []byte {
	out, by := scale(out, float32(math.Abs(float64(largest(block))))/127)
	for _, v := range block {
		out = append(out, byte(int8(math.Round(float64(v*by)))))
	}
	return out
}

// appendQ40 rounds to multiples of d, of which the largest value is -8. Product and sum are rounded one after the other,
// as in llama.cpp's programs for x86.
func appendQ40(out []byte, block []float32) []byte {
	out, by := scale(out, largest(block)/-8)
	level := func(v float32) byte { return min(15, byte(float32(v*by)+8.5)) }
	for i, v := range block[:16] {
		out = append(out, level(v)|level(block[16+i])<<4)
	}
	return out
}
