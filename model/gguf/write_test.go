package gguf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/gguf"
)

func streams(f []gguf.Stream, blocks [][]byte) []gguf.Stream {
	for i := range f {
		f[i].Write = func(w io.Writer) error {
			_, err := w.Write(blocks[i])
			return err
		}
	}
	return f
}

// A file is the same, byte by byte, as the one that the tests put together by themselves.
func TestEncode(t *testing.T) {
	f := sample()
	var list []gguf.Stream
	var blocks [][]byte
	for _, x := range f.Tensors {
		list = append(list, gguf.Stream{Tensor: gguf.Tensor{Name: x.Name, Shape: x.Shape, Type: gguf.Type(x.Type)}})
		blocks = append(blocks, x.Blocks)
	}
	var out bytes.Buffer
	if err := gguf.Encode(&out, f.Entries, streams(list, blocks)); err != nil || !bytes.Equal(out.Bytes(), f.Bytes()) {
		t.Errorf("%v\n%q\n%q", err, out.Bytes(), f.Bytes())
	}
}

// What is written is read: random metadata and tensors.
func FuzzWrite(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		entries := map[string]any{"text": fmt.Sprint(seed), "int": random.Uint32(), "float": random.Float32(), "bool": seed%2 == 0,
			"texts": make([]string, random.IntN(4)), "ints": slices.Repeat([]int32{-random.Int32()}, random.IntN(4)),
			"floats": slices.Repeat([]float32{random.Float32()}, random.IntN(4))}
		var in []gguf.Entry
		for key, v := range entries {
			in = append(in, gguf.Entry{Key: key, Value: v})
		}
		var list []gguf.Stream
		var blocks [][]byte
		for i := range random.IntN(5) {
			x := gguf.Tensor{Name: fmt.Sprint("t", i), Type: gguf.Written[random.IntN(len(gguf.Written))],
				Shape: []int64{1 + random.Int64N(3), 32 * (1 + random.Int64N(3))}}
			values := make([]float32, x.NumElements())
			for j := range values {
				values[j] = float32(random.NormFloat64())
			}
			list, blocks = append(list, gguf.Stream{Tensor: x}), append(blocks, gguf.Append(nil, x.Type, values))
		}
		path := filepath.Join(t.TempDir(), "x.gguf")
		if err := gguf.Write(path, in, streams(list, blocks)); err != nil {
			t.Fatal(err)
		}
		file, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for _, e := range in {
			if got := valueOf(file, e.Key); fmt.Sprint(got) != fmt.Sprint(e.Value) {
				t.Errorf("%s is %v, was %v", e.Key, got, e.Value)
			}
		}
		for i, x := range file.Tensors() {
			want, got := make([]float32, x.NumElements()), make([]float32, x.NumElements())
			if err := errors.Join(gguf.Dequantize(x.Type, want, blocks[i]), file.Reader(x).Read(got, 0)); err != nil ||
				!slices.Equal(got, want) || x.Name != list[i].Name || !slices.Equal(x.Shape, list[i].Shape) {
				t.Errorf("%v (%v): %v, want %v", x, err, got, want)
			}
		}
		if len(file.Keys()) != len(in) || len(file.Tensors()) != len(list) {
			t.Errorf("%v, %v", file.Keys(), file.Tensors())
		}
	})
}

func valueOf(f *gguf.File, key string) (v any) {
	switch key {
	case "text":
		v, _, _ = f.Text(key)
	case "int":
		v, _, _ = f.Int(key)
	case "float":
		v, _, _ = f.Float(key)
	case "bool":
		v, _, _ = f.Bool(key)
	case "texts":
		v, _ = f.Texts(key)
	case "ints":
		v, _ = f.Ints(key)
	case "floats":
		v, _ = f.Floats(key)
	}
	return v
}

// A tensor that fails, or that writes too little, leaves no file.
func TestWriteFails(t *testing.T) {
	boom := errors.New("boom")
	for want, write := range map[string]func(io.Writer) error{
		"boom":                     func(io.Writer) error { return boom },
		"128 bytes, but 0 were":    func(io.Writer) error { return nil },
		"128 bytes, but 129 were ": func(w io.Writer) error { _, err := w.Write(make([]byte, 129)); return err },
	} {
		dir := t.TempDir()
		err := gguf.Write(filepath.Join(dir, "x"), nil, []gguf.Stream{{gguf.Tensor{Name: "x", Shape: []int64{32}}, write}})
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, boom) != (want == "boom") {
			t.Errorf("%v, want %q", err, want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v is left (%v)", left, err)
		}
	}
}
