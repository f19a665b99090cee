// Package gguftest writes small GGUF files for tests.
package gguftest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"popri/model/gguf"
)

// Numbers of the types of metadata values that a [File] can hold.
const (
	kindUint32  = 4
	kindInt32   = 5
	kindFloat32 = 6
	kindBool    = 7
	kindText    = 8
	kindArray   = 9
)

// Entry is a metadata entry.
type Entry = gguf.Entry

// Tensor is an array: its dimensions with the last one varying fastest, ggml's number of its type, and its blocks.
type Tensor struct {
	Name   string
	Shape  []int64
	Type   uint32
	Blocks []byte
}

// File is what a file holds, in order.
type File struct {
	Entries []Entry
	Tensors []Tensor
}

// Set replaces the value of a key, or adds the key. A nil value removes it.
func (f *File) Set(key string, value any) {
	for i, e := range f.Entries {
		if e.Key == key {
			if f.Entries[i].Value = value; value == nil {
				f.Entries = append(f.Entries[:i:i], f.Entries[i+1:]...)
			}
			return
		}
	}
	if value != nil {
		f.Entries = append(f.Entries, Entry{Key: key, Value: value})
	}
}

// Float32s adds a tensor of type F32.
func (f *File) Float32s(name string, values []float32, shape ...int64) {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	f.Tensors = append(f.Tensors, Tensor{Name: name, Shape: shape, Blocks: b})
}

// Write writes the file into a new folder and returns its path.
func (f *File) Write(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, f.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Bytes returns the file, in version 3.
func (f *File) Bytes() []byte {
	w := &writer{}
	w.WriteString("GGUF")
	w.numbers(uint32(3), uint64(len(f.Tensors)), uint64(len(f.Entries)))
	for _, e := range f.Entries {
		w.text(e.Key)
		w.value(e.Value)
	}
	offset := uint64(0)
	for _, t := range f.Tensors {
		w.text(t.Name)
		w.numbers(uint32(len(t.Shape)))
		for i := range t.Shape {
			w.numbers(uint64(t.Shape[len(t.Shape)-1-i]))
		}
		w.numbers(t.Type, offset)
		offset += uint64(len(t.Blocks)+31) / 32 * 32
	}
	for _, t := range f.Tensors {
		w.Write(make([]byte, -w.Len()&31))
		w.Write(t.Blocks)
	}
	return w.Buffer.Bytes()
}

type writer struct{ bytes.Buffer }

func (w *writer) numbers(list ...any) {
	for _, n := range list {
		if err := binary.Write(&w.Buffer, binary.LittleEndian, n); err != nil {
			panic(err) // a type that this package does not write
		}
	}
}

func (w *writer) text(s string) {
	w.numbers(uint64(len(s)))
	w.WriteString(s)
}

func (w *writer) value(v any) {
	array := func(kind uint32, n int) { w.numbers(uint32(kindArray), kind, uint64(n)) }
	switch v := v.(type) {
	case uint32:
		w.numbers(uint32(kindUint32), v)
	case float32:
		w.numbers(uint32(kindFloat32), v)
	case bool:
		w.numbers(uint32(kindBool), v)
	case string:
		w.numbers(uint32(kindText))
		w.text(v)
	case []string:
		array(kindText, len(v))
		for _, s := range v {
			w.text(s)
		}
	case []int32:
		array(kindInt32, len(v))
		w.numbers(v)
	case []float32:
		array(kindFloat32, len(v))
		w.numbers(v)
	default:
		panic(fmt.Sprintf("gguftest: a value of type %T", v))
	}
}
