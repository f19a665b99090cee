package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/model/gguf"
	"popri/testkit/gguftest"
	"popri/testkit/testfile"
)

// sample holds a value of each kind and tensors of two types.
func sample() *gguftest.File {
	f := &gguftest.File{Entries: []gguftest.Entry{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(2)},
		{Key: "llama.eps", Value: float32(1e-5)},
		{Key: "llama.causal", Value: true},
		{Key: "llama.kv", Value: []int32{3, 3}},
		{Key: "llama.mixed", Value: []int32{3, 4}},
		{Key: "tokens", Value: []string{"a", "", "\xff"}},
		{Key: "scores", Value: []float32{0.1, -2}},
		{Key: "empty", Value: []string{}},
		{Key: "zero", Value: uint32(0)},
	}}
	f.Float32s("norm", []float32{1, 2, 3}, 3)
	blocks := make([]byte, 4*34) // 4 blocks of Q8_0: d = 0.5, values 0 to 31, block by block negative
	for b := range 4 {
		binary.LittleEndian.PutUint16(blocks[34*b:], 0x3800)
		for i := range 32 {
			blocks[34*b+2+i] = byte(int8(i * (1 - 2*(b%2))))
		}
	}
	f.Tensors = append(f.Tensors, gguftest.Tensor{Name: "w", Shape: []int64{2, 64}, Type: uint32(gguf.Q8_0),
		Blocks: blocks})
	return f
}

func TestRead(t *testing.T) {
	f, err := gguf.Open(sample().Write(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Version != 3 || len(f.Keys()) != 10 || len(f.Tensors()) != 2 {
		t.Errorf("version %d, keys %v, tensors %v", f.Version, f.Keys(), f.Tensors())
	}
	if s, ok, err := f.Text("general.architecture"); s != "llama" || !ok || err != nil {
		t.Error(s, ok, err)
	}
	if n, ok, err := f.Int("llama.block_count"); n != 2 || !ok || err != nil {
		t.Error(n, ok, err)
	}
	if n, ok, err := f.Int("llama.kv"); n != 3 || !ok || err != nil {
		t.Error(n, ok, err)
	}
	if x, ok, err := f.Float("llama.eps"); x != 1e-5 || !ok || err != nil {
		t.Error(x, ok, err)
	}
	if b, ok, err := f.Bool("llama.causal"); !b || !ok || err != nil {
		t.Error(b, ok, err)
	}
	if list, err := f.Texts("tokens"); !slices.Equal(list, []string{"a", "", "\xff"}) || err != nil {
		t.Error(list, err)
	}
	if list, err := f.Floats("scores"); !slices.Equal(list, []float64{0.1, -2}) || err != nil {
		t.Error(list, err)
	}
	if list, err := f.Ints("llama.mixed"); !slices.Equal(list, []int64{3, 4}) || err != nil {
		t.Error(list, err)
	}
	if _, ok, err := f.Int("none"); ok || err != nil {
		t.Error("a missing key:", ok, err)
	}
	for _, key := range []string{"empty", "zero", "none"} {
		if !f.Off(key) {
			t.Errorf("%s is not off", key)
		}
	}
	for _, key := range []string{"llama.causal", "tokens", "general.architecture"} {
		if f.Off(key) {
			t.Errorf("%s is off", key)
		}
	}
	w, ok := f.Tensor("w")
	if !ok || !slices.Equal(w.Shape, []int64{2, 64}) || w.NumElements() != 128 || w.Type.String() != "Q8_0" {
		t.Errorf("%+v", w)
	}
	got := make([]float32, 64)
	if err := f.Reader(w).Read(got, 32); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		want := 0.5 * float32(i%32)
		if i < 32 {
			want = -want
		}
		if v != want {
			t.Errorf("value %d is %v, want %v", 32+i, v, want)
		}
	}
	for _, c := range []struct {
		first int64
		n     int
	}{{-32, 32}, {16, 32}, {0, 16}, {128, 32}, {96, 64}} {
		if err := f.Reader(w).Read(make([]float32, c.n), c.first); err == nil {
			t.Errorf("%d values from %d are read", c.n, c.first)
		}
	}
}

// A key of another type than is asked for is named with the type that it has.
func TestTypesOfValues(t *testing.T) {
	path := sample().Write(t)
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	errs := map[string]error{}
	_, _, errs["an array of 3 text"] = f.Text("tokens")
	_, _, errs["of type text"] = f.Int("general.architecture")
	_, _, errs["of type uint32"] = f.Float("llama.block_count")
	_, _, errs["of type float32"] = f.Bool("llama.eps")
	_, errs["an array of 2 int32"] = f.Texts("llama.kv")
	_, errs["an array of 2 float32"] = f.Ints("scores")
	_, errs["of type bool"] = f.Floats("llama.causal")
	_, _, errs["differs by layer (3, 4"] = f.Int("llama.mixed")
	for want, err := range errs {
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) ||
			!fault.IsUser(err) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// Everything that can be wrong with a file is refused, with what was met.
func TestRefuses(t *testing.T) {
	good := sample().Bytes()
	change := func(at int, b ...byte) func() []byte {
		return func() []byte {
			c := slices.Clone(good)
			copy(c[at:], b)
			return c
		}
	}
	build := func(edit func(f *gguftest.File)) func() []byte {
		return func() []byte {
			f := sample()
			edit(f)
			return f.Bytes()
		}
	}
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	for name, c := range map[string]struct {
		content func() []byte
		want    string
	}{
		"empty":              {func() []byte { return nil }, "cut short"},
		"other magic":        {change(0, 'G', 'G', 'M', 'L'), `begins with "GGML"`},
		"version 1":          {change(4, 1), "version 1, supported are 2 and 3"},
		"big endian":         {change(4, 0, 0, 0, 3), "big endian"},
		"tensors claimed":    {change(8, huge...), "tensors, which take at least"},
		"entries claimed":    {change(16, huge...), "entries of metadata, which take at least"},
		"key's length":       {change(24, huge...), "cut short"},
		"cut in metadata":    {func() []byte { return good[:len(good)-400] }, "cut short"},
		"cut in the tensors": {func() []byte { return good[:len(good)-1] }, "cut short or damaged"},
		"twice":              {build(func(f *gguftest.File) { f.Entries[1].Key = f.Entries[0].Key }), "stands twice"},
		"tensor twice": {build(func(f *gguftest.File) { f.Tensors[1].Name = "norm" }),
			`tensor "norm": stands twice`},
		"alignment": {build(func(f *gguftest.File) { f.Set("general.alignment", uint32(24)) }),
			"is 24, must be a power of two"},
		"type": {build(func(f *gguftest.File) { f.Tensors[1].Type = 23 }),
			"the type IQ4_XS is not supported"},
		"unknown type": {build(func(f *gguftest.File) { f.Tensors[1].Type = 99 }),
			"the type number 99 is not supported"},
		"dimensions": {build(func(f *gguftest.File) { f.Tensors[1].Shape = nil }), "has 0 dimensions"},
		"five dimensions": {build(func(f *gguftest.File) { f.Tensors[1].Shape = []int64{1, 1, 1, 2, 64} }),
			"has 5 dimensions"},
		"empty tensor": {build(func(f *gguftest.File) { f.Tensors[1].Shape = []int64{0, 64} }),
			"is empty or its size overflows"},
		"overflow": {build(func(f *gguftest.File) { f.Tensors[1].Shape = []int64{1 << 40, 1 << 40} }),
			"its size overflows"},
		"rows": {build(func(f *gguftest.File) { f.Tensors[1].Shape = []int64{4, 48} }),
			"rows of 48 values are no multiple of the 32"},
		"larger": {build(func(f *gguftest.File) { f.Tensors[1].Shape = []int64{200, 64} }),
			"should be in the file"},
		"name": {build(func(f *gguftest.File) { f.Tensors[1].Name = "\xff" }), "empty or not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			path := testfile.Write(t, filepath.Join(t.TempDir(), "x.gguf"), c.content())
			_, err := gguf.Open(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) ||
				!fault.IsUser(err) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := gguf.Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := gguf.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// Tensors that share bytes are refused.
func TestOverlap(t *testing.T) {
	f := &gguftest.File{}
	f.Float32s("one", make([]float32, 64), 64)
	f.Float32s("two", make([]float32, 64), 64)
	b := f.Bytes()
	at := bytes.Index(b, []byte("two")) + 3 + 4 + 8 + 4 // name, dimensions, one of them, type
	binary.LittleEndian.PutUint64(b[at:], 32)
	_, err := gguf.Parse("x.gguf", bytes.NewReader(b), int64(len(b)))
	if err == nil || !strings.Contains(err.Error(), `tensor "two": its blocks overlap the blocks of "one"`) {
		t.Error(err)
	}
}

// A count that a short file claims allocates nothing.
func TestClaimsAllocateNothing(t *testing.T) {
	for at, what := range map[int]string{8: "tensors", 16: "entries", 24: "key"} {
		b := sample().Bytes()
		binary.LittleEndian.PutUint64(b[at:], 1<<60)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := gguf.Parse("x", bytes.NewReader(b), int64(len(b))); err == nil {
			t.Errorf("%s: no error", what)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes are allocated", what, n)
		}
	}
}

func TestDequantizeRefuses(t *testing.T) {
	for _, c := range []struct {
		t        gguf.Type
		dst, src int
	}{{gguf.Q4_0, 32, 17}, {gguf.Q4_0, 31, 18}, {gguf.Q6_K, 256, 420}, {gguf.Type(15), 256, 292}} {
		if err := gguf.Dequantize(c.t, make([]float32, c.dst), make([]byte, c.src)); err == nil {
			t.Errorf("%s: %d bytes give %d values", c.t, c.src, c.dst)
		}
	}
}

// A block of zeros holds zeros, whatever its type: no scale, no minimum.
func TestZeroBlocks(t *testing.T) {
	for _, typ := range gguf.Types {
		values, size := typ.Block()
		dst := make([]float32, values)
		dst[0] = 1
		if err := gguf.Dequantize(typ, dst, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		for i, v := range dst {
			if v != 0 {
				t.Errorf("%s: value %d is %v", typ, i, v)
			}
		}
	}
}

// FuzzParse: whatever the bytes are, Parse returns an error or a file all of whose tensors can be read.
func FuzzParse(f *testing.F) {
	good := sample().Bytes()
	f.Add(good)
	f.Add(good[:len(good)/2])
	v2 := slices.Clone(good)
	v2[4] = 2
	f.Add(v2)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := slices.Clone(good)
		for range 4 {
			b[random.IntN(len(b))] = byte(random.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := gguf.Parse("x", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if !fault.IsUser(err) {
				t.Errorf("not the user's mistake: %v", err)
			}
			return
		}
		for _, key := range file.Keys() {
			file.Off(key)
			file.Int(key)
			file.Float(key)
			file.Bool(key)
			file.Ints(key)
			file.Floats(key)
			file.Texts(key)
		}
		for _, x := range file.Tensors() {
			if x.NumElements() > math.MaxInt32 {
				t.Fatalf("%d bytes hold a tensor %v", len(b), x.Shape)
			}
			if err := file.Reader(x).Read(make([]float32, x.NumElements()), 0); err != nil {
				t.Error(err)
			}
		}
	})
}
