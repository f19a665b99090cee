package gguf_test

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"popri/model/gguf"
	"popri/model/safetensors"
	"popri/testkit/golden"
)

// TestGoldenBlocks dequantizes random blocks of every type and compares with the gguf package, to the last bit.
func TestGoldenBlocks(t *testing.T) {
	f, err := safetensors.Open(filepath.Join(golden.Folder(t, "gguf"), "blocks.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	types := map[string]gguf.Type{}
	for _, typ := range gguf.Types {
		types[typ.String()] = typ
	}
	for _, name := range f.Names() {
		kind, ok := strings.CutSuffix(name, "/blocks")
		if !ok {
			continue
		}
		typ, known := types[kind]
		if !known {
			golden.Unbuilt(t, "gguf/"+kind)
			continue
		}
		blocks, _ := f.Tensor(name)
		values, ok := f.Tensor(kind + "/values")
		if !ok {
			t.Fatalf("there are no %s/values", kind)
		}
		want, err := values.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(want))
		if err := gguf.Dequantize(typ, got, blocks.Data); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] == 0 && want[i] == 0) {
				t.Fatalf("%s: value %d is %v, want %v", kind, i, got[i], want[i])
			}
		}
		golden.Checked(t, "gguf/"+kind, len(got))
	}
}

// TestGoldenRounding rounds values to every type that is written, as the gguf package does, to the last bit.
func TestGoldenRounding(t *testing.T) {
	f, err := safetensors.Open(filepath.Join(golden.Folder(t, "gguf"), "blocks.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, ok := f.Tensor("plain")
	values, err := plain.Float32s()
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, typ := range gguf.Written {
		want, ok := f.Tensor(typ.String() + "/rounded")
		if typ == gguf.F32 {
			want, ok = plain, true
		}
		got := gguf.Append(nil, typ, values)
		if !ok || !bytes.Equal(got, want.Data) {
			t.Errorf("%s: the blocks are\n%x, want\n%x", typ, got, want.Data)
		}
		golden.Checked(t, "gguf/"+typ.String()+"/rounding", len(values))
	}
}
