package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// encode makes a file of a header and data.
func encode(header string, data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

func writeFile(t testing.TB, content []byte) string {
	t.Helper()
	return testfile.Write(t, filepath.Join(t.TempDir(), "x.safetensors"), content)
}

func TestOpenRefuses(t *testing.T) {
	entry := func(dtype, shape string, begin, end int) string {
		return fmt.Sprintf(`{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, dtype, shape, begin, end)
	}
	for _, c := range []struct {
		name    string
		content []byte
		want    []string
	}{
		{"empty", nil, []string{"0 bytes"}},
		{"no header", []byte{1, 2, 3}, []string{"3 bytes"}},
		{"huge header", binary.LittleEndian.AppendUint64(nil, 1<<40), []string{"1099511627776", "100000000"}},
		{"largest length", binary.LittleEndian.AppendUint64(nil, math.MaxUint64), []string{"18446744073709551615"}},
		{"header cut", append(encode("", nil)[:0], append(binary.LittleEndian.AppendUint64(nil, 100), '{')...),
			[]string{"100", "only 1"}},
		{"not JSON", encode("hello", nil), []string{"'{'"}},
		{"space first", encode(" {}", nil), []string{"'{'"}},
		{"broken JSON", encode(`{"a":`, nil), []string{"JSON"}},
		{"two objects", encode(`{} {}`, nil), []string{"JSON"}},
		{"not UTF-8", encode("{\"\xff\":1}", nil), []string{"UTF-8"}},
		{"entry is a number", encode(`{"a":1}`, nil), []string{`"a"`}},
		{"missing shape", encode(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, make([]byte, 4)),
			[]string{`"a"`, "shape"}},
		{"one offset", encode(`{"a":{"dtype":"F32","shape":[],"data_offsets":[4]}}`, make([]byte, 4)),
			[]string{`"a"`, "[4]"}},
		{"negative offset", encode(`{"a":{"dtype":"F32","shape":[],"data_offsets":[-4,0]}}`, make([]byte, 4)),
			[]string{`"a"`, "-4"}},
		{"unknown type", encode(`{"a":`+entry("F8_E4M3", "[4]", 0, 4)+`}`, make([]byte, 4)),
			[]string{`"a"`, "F8_E4M3"}},
		{"lower-case type", encode(`{"a":`+entry("f32", "[1]", 0, 4)+`}`, make([]byte, 4)), []string{`"f32"`}},
		{"negative dimension", encode(`{"a":`+entry("F32", "[-1]", 0, 4)+`}`, make([]byte, 4)), []string{`"a"`, "-1"}},
		{"fractional dimension", encode(`{"a":`+entry("F32", "[1.5]", 0, 4)+`}`, make([]byte, 4)),
			[]string{`"a"`, "1.5"}},
		{"shape overflows", encode(`{"a":`+entry("F32", "[4611686018427387904,4]", 0, 4)+`}`, make([]byte, 4)),
			[]string{`"a"`, "overflows"}},
		{"shape overflows to zero", encode(`{"a":`+entry("F32", "[9223372036854775807,9223372036854775807,0]", 0, 0)+
			`}`, nil), []string{"overflows"}},
		{"shape against bytes", encode(`{"a":`+entry("F32", "[2,3]", 0, 20)+`}`, make([]byte, 20)),
			[]string{`"a"`, "[2 3]", "24", "20"}},
		{"backwards", encode(`{"a":`+entry("F32", "[1]", 4, 0)+`}`, make([]byte, 4)), []string{"backwards"}},
		{"truncated data", encode(`{"a":`+entry("F32", "[4]", 0, 16)+`}`, make([]byte, 12)),
			[]string{`"a"`, "16", "12"}},
		{"bytes left over", encode(`{"a":`+entry("F32", "[1]", 0, 4)+`}`, make([]byte, 7)), []string{"3 bytes", "4"}},
		{"gap at the start", encode(`{"a":`+entry("F32", "[1]", 4, 8)+`}`, make([]byte, 8)), []string{"gap of 4"}},
		{"overlap", encode(`{"a":`+entry("F32", "[2]", 0, 8)+`,"b":`+entry("F32", "[2]", 4, 12)+`}`, make([]byte, 12)),
			[]string{`"b"`, "overlap", `"a"`}},
		{"the same bytes twice", encode(`{"a":`+entry("F32", "[2]", 0, 8)+`,"b":`+entry("F32", "[2]", 0, 8)+`}`,
			make([]byte, 8)), []string{"overlap"}},
		{"name twice", encode(`{"a":`+entry("F32", "[1]", 0, 4)+`,"a":`+entry("F32", "[1]", 4, 8)+`}`, make([]byte, 8)),
			[]string{`"a"`, "twice"}},
		{"metadata of numbers", encode(`{"__metadata__":{"a":1}}`, nil), []string{"__metadata__"}},
		{"metadata twice", encode(`{"__metadata__":{},"__metadata__":{}}`, nil), []string{"twice"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeFile(t, c.content)
			f, err := Open(path)
			if err == nil {
				f.Close()
				t.Fatal("opened")
			}
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Errorf("%v is no FormatError", err)
			}
			for _, want := range append(c.want, path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestOpenMissingOrDirectory(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("opened a directory")
	}
}

func TestUnalignedData(t *testing.T) {
	header := `{"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}}`
	for pad := range 9 {
		values := FromFloat32("f", []int64{2}, []float32{1.5, -2})
		path := writeFile(t, encode(header+strings.Repeat(" ", pad), append([]byte{7}, values.Data...)))
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		tensor, _ := f.Tensor("f")
		got, err := tensor.Float32s()
		if err != nil || !slices.Equal(got, []float32{1.5, -2}) {
			t.Errorf("pad %d: %v %v", pad, got, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWriteRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]float32, 60)
	for i := range data {
		data[i] = random.Float32() - 0.5
	}
	tensors := []Tensor{
		FromFloat32As("half", []int64{3, 4, 5}, data, F16),
		FromFloat32As("brain", []int64{60}, data, BF16),
		FromFloat32("z", []int64{5, 12}, data),
		FromFloat32("empty", []int64{0, 7}, nil),
		FromFloat32("scalar", nil, []float32{3}),
		FromFloat64("double", []int64{2}, []float64{math.Pi, -math.E}),
		FromInt64("ids\n\"é<\u2028", []int64{3}, []int64{-1, 0, math.MaxInt64}),
		{Name: "bool", DType: BOOL, Shape: []int64{2}, Data: []byte{0, 1}},
		{Name: "i8", DType: I8, Shape: []int64{2}, Data: []byte{255, 1}},
		{Name: "i16", DType: I16, Shape: []int64{1}, Data: []byte{0xfe, 0xff}},
		{Name: "i32", DType: I32, Shape: []int64{1}, Data: []byte{0xfe, 0xff, 0xff, 0xff}},
	}
	metadata := map[string]string{"format": "pt", "a": "\x01\\"}
	if err := Write(path, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	first, _ := os.ReadFile(path)
	random.Shuffle(len(tensors), func(i, j int) { tensors[i], tensors[j] = tensors[j], tensors[i] })
	if err := Write(path, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	second, _ := os.ReadFile(path)
	if !slices.Equal(first, second) {
		t.Error("the order of the argument changes the file")
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !reflect.DeepEqual(f.Metadata(), metadata) {
		t.Errorf("metadata %v", f.Metadata())
	}
	if len(f.Names()) != len(tensors) {
		t.Errorf("names %v", f.Names())
	}
	for _, want := range tensors {
		got, ok := f.Tensor(want.Name)
		if !ok || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) ||
			!slices.Equal(got.Data, want.Data) {
			t.Errorf("%s: %+v", want.Name, got)
		}
	}
	for _, name := range []string{"bool", "i8", "i16", "i32"} {
		tensor, _ := f.Tensor(name)
		if got, err := tensor.Int64s(); err == nil {
			t.Errorf("%s read as 64-bit integers: %v", name, got)
		}
		if _, err := tensor.Float32s(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s read as floats: %v", name, err)
		}
	}
	double, _ := f.Tensor("double")
	if got, err := double.Float64s(); err != nil || got[0] != math.Pi {
		t.Errorf("double: %v %v", got, err)
	}
	if got, err := double.Float32s(); err != nil || got[0] != float32(math.Pi) {
		t.Errorf("double: %v %v", got, err)
	}
	if _, err := double.Int64s(); err == nil {
		t.Error("floats read as integers")
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, tensors := range map[string][]Tensor{
		"twice":    {FromInt64("a", nil, []int64{1}), FromInt64("a", nil, []int64{1})},
		"reserved": {FromInt64("__metadata__", nil, []int64{1})},
		"shape":    {FromFloat32("a", []int64{2}, []float32{1})},
		"negative": {FromFloat32("a", []int64{-1}, []float32{1})},
		"type":     {{Name: "a", DType: "F8", Shape: nil, Data: []byte{1}}},
		"not UTF8": {FromInt64("\xff", nil, []int64{1})},
		"integer":  {FromFloat32As("a", []int64{1}, []float32{1}, I32)},
	} {
		path := filepath.Join(t.TempDir(), "a.safetensors")
		if err := Write(path, tensors, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: the file was written", name)
		}
	}
}

// Every half-precision value survives a round trip, and values between two neighbours go to the nearer one, from the
// middle to the even one: rounding is defined by that, whatever formula computes it.
func TestHalfPrecisionIsExactAndRoundsToNearestEven(t *testing.T) {
	for _, kind := range []struct {
		name string
		to   func(float32) uint16
		from func(uint16) float32
		inf  uint16
	}{{"F16", f16FromFloat32, Float32FromF16, 0x7c00}, {"BF16", bf16FromFloat32, float32FromBF16, 0x7f80}} {
		for bits := range 1 << 16 {
			h := uint16(bits)
			f := kind.from(h)
			if f != f {
				if got := kind.from(kind.to(f)); got == got {
					t.Fatalf("%s %#x: NaN became %v", kind.name, h, got)
				}
				continue
			}
			if got := kind.to(f); got != h {
				t.Fatalf("%s %#x = %v came back as %#x", kind.name, h, f, got)
			}
			if h&0x7fff >= kind.inf-1 {
				continue
			}
			next := kind.from(h + 1)
			middle := float32((float64(f) + float64(next)) / 2)
			even := h + h&1
			if got := kind.to(middle); got != even {
				t.Fatalf("%s: %v between %#x and its neighbour became %#x", kind.name, middle, h, got)
			}
			if got := kind.to(math.Nextafter32(middle, f)); got != h {
				t.Fatalf("%s: just below the middle above %#x became %#x", kind.name, h, got)
			}
			if got := kind.to(math.Nextafter32(middle, next)); got != h+1 {
				t.Fatalf("%s: just above the middle above %#x became %#x", kind.name, h, got)
			}
		}
	}
	for f, want := range map[float32]uint16{65504: 0x7bff, 65519.996: 0x7bff, 65520: 0x7c00, 1e30: 0x7c00, 1e-8: 0,
		2.9802322e-08: 0, 2.9802326e-08: 1} {
		if got := f16FromFloat32(f); got != want {
			t.Errorf("F16(%v) = %#x, want %#x", f, got, want)
		}
	}
	if got := bf16FromFloat32(math.MaxFloat32); got != 0x7f80 {
		t.Errorf("BF16(max) = %#x", got)
	}
}

// checkFinite reads all weights of a model.
func checkFinite(m *Model) error {
	for _, name := range m.Names() {
		t, _ := m.Tensor(name)
		if err := t.CheckFinite(); err != nil {
			return fmt.Errorf("%s: %w", m.where[name].Path(), err)
		}
	}
	return nil
}

func TestCheckFinite(t *testing.T) {
	values := make([]float32, 24)
	for _, d := range []DType{F64, F32, F16, BF16} {
		if err := FromFloat32As("w", []int64{2, 3, 4}, values, d).CheckFinite(); err != nil {
			t.Errorf("%s: %v", d, err)
		}
		bad := slices.Clone(values)
		bad[17], bad[20] = float32(math.NaN()), float32(math.Inf(1))
		err := FromFloat32As("w", []int64{2, 3, 4}, bad, d).CheckFinite()
		if err == nil || !strings.Contains(err.Error(), `"w"`) ||
			!strings.Contains(err.Error(), "value 17 (at [1 1 1]) is NaN") {
			t.Errorf("%s: %v", d, err)
		}
	}
	if err := FromInt64("i", []int64{1}, []int64{math.MaxInt64}).CheckFinite(); err != nil {
		t.Error(err)
	}
}

func TestOpenModel(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenModel(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("empty folder: %v", err)
	}
	write := func(name string, names ...string) {
		var tensors []Tensor
		for i, n := range names {
			tensors = append(tensors, FromFloat32(n, []int64{1}, []float32{float32(i)}))
		}
		if err := Write(filepath.Join(dir, name), tensors, nil); err != nil {
			t.Fatal(err)
		}
	}
	index := func(content string) {
		testfile.Write(t, filepath.Join(dir, ModelIndex), content)
	}
	write("one.safetensors", "b", "a")
	write("two.safetensors", "c")
	for content, want := range map[string]string{
		`{"weight_map":{"a":"one.safetensors","x":"two.safetensors"}}`: `"x"`,
		`{"weight_map":{"a":"three.safetensors"}}`:                     "three.safetensors is missing",
		`{"weight_map":{"a":"../one.safetensors"}}`:                    "outside",
		`{"weight_map":{}}`: "empty",
		`[]`:                ModelIndex,
	} {
		index(content)
		if _, err := OpenModel(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", content, err)
		}
	}
	index(`{"weight_map":{"c":"two.safetensors","a":"one.safetensors","b":"one.safetensors"}}`)
	m, err := OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.Names(), []string{"a", "b", "c"}) || len(m.Files()) != 2 {
		t.Errorf("names %v, files %v", m.Names(), m.Files())
	}
	if b, ok := m.Tensor("b"); !ok || b.NumElements() != 1 {
		t.Errorf("b: %v %v", b, ok)
	}
	if _, ok := m.Tensor("d"); ok {
		t.Error("found a tensor that is nowhere")
	}
	if err := checkFinite(m); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	write(ModelFile, "only")
	m, err = OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !slices.Equal(m.Names(), []string{"only"}) {
		t.Errorf("the single file comes first: %v", m.Names())
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte{})
	f.Add(encode(`{}`, nil))
	f.Add(encode(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}`,
		make([]byte, 8)))
	f.Add(encode(`{"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[0],"data_offsets":[8,8]}}  `,
		make([]byte, 8)))
	f.Add(encode(`{"a":{"dtype":"F16","shape":[9223372036854775807,2],"data_offsets":[0,18446744073709551615]}}`,
		make([]byte, 4)))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		path := testfile.Write(t, filepath.Join(dir, fmt.Sprintf("%d", os.Getpid())), content)
		file, err := Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		var tensors []Tensor
		total := 0
		for _, name := range file.Names() {
			tensor, ok := file.Tensor(name)
			if !ok {
				t.Fatalf("%q is listed and missing", name)
			}
			total += len(tensor.Data)
			if tensor.DType.IsFloat() {
				if values, err := tensor.Float32s(); err != nil || len(values) != tensor.NumElements() {
					t.Fatalf("%q: %d values, %v", name, len(values), err)
				}
				if err := tensor.CheckFinite(); err != nil && !strings.Contains(err.Error(), "finite") {
					t.Fatal(err)
				}
			} else if _, err := tensor.Int64s(); (err == nil) != (tensor.DType == I64) {
				t.Fatal(err)
			}
			tensors = append(tensors, tensor)
		}
		if total > len(content) {
			t.Fatalf("%d bytes of data in a file of %d", total, len(content))
		}
		if err := Write(path+".out", tensors, file.Metadata()); err != nil {
			t.Fatal(err)
		}
		again, err := Open(path + ".out")
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if !slices.Equal(again.Names(), file.Names()) {
			t.Fatalf("%q became %q", file.Names(), again.Names())
		}
	})
}

func BenchmarkFloat32s(b *testing.B) {
	for _, d := range []DType{F32, BF16, F16} {
		tensor := FromFloat32As("w", []int64{1 << 20}, make([]float32, 1<<20), d)
		b.Run(string(d), func(b *testing.B) {
			b.SetBytes(int64(len(tensor.Data)))
			for b.Loop() {
				tensor.Float32s()
			}
		})
	}
}

func ExampleOpen() {
	path := filepath.Join(os.TempDir(), "example.safetensors")
	defer os.Remove(path)
	err := Write(path, []Tensor{FromFloat32As("weight", []int64{2, 2}, []float32{1, 2, 3, 4}, BF16)}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	weight, _ := f.Tensor("weight")
	values, _ := weight.Float32s()
	fmt.Println(weight.DType, weight.Shape, values)
	// Output: BF16 [2 2] [1 2 3 4]
}

// Tensors that are made while they are written give the bytes of tensors in memory.
func TestWriteStreams(t *testing.T) {
	dir := t.TempDir()
	tensors := []Tensor{FromFloat32As("b", []int64{2}, []float32{1, 2}, BF16),
		FromFloat32("a", []int64{3}, []float32{1, 2, 3})}
	streams := make([]Stream, len(tensors))
	for i, x := range tensors {
		streams[i] = Stream{Name: x.Name, DType: x.DType, Shape: x.Shape, Write: func(w io.Writer) error {
			for _, b := range x.Data {
				if _, err := w.Write([]byte{b}); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	whole, streamed := filepath.Join(dir, "whole"), filepath.Join(dir, "streamed")
	if err := Write(whole, tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := WriteStreams(streamed, streams, nil); err != nil {
		t.Fatal(err)
	}
	want := testfile.Read(t, whole)
	if got, err := os.ReadFile(streamed); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, want %x, %v", got, want, err)
	}
	// Too few bytes, and an error on the way, leave the file as it was.
	broken := errors.New("broken")
	for _, write := range []func(io.Writer) error{func(io.Writer) error { return nil },
		func(io.Writer) error { return broken }} {
		streams[0].Write = write
		err := WriteStreams(streamed, streams, nil)
		if err == nil || !strings.Contains(err.Error(), streamed) {
			t.Errorf("%v", err)
		}
		if got, err := os.ReadFile(streamed); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the file was changed: %v", err)
		}
	}
	if !errors.Is(WriteStreams(streamed, streams, nil), broken) {
		t.Error("the error is not found")
	}
}
