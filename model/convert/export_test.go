package convert_test

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"popri/model/convert"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tokenizer"
	"popri/testkit/golden"
)

// goldenFiles are the GGUF files of the golden cases.
func goldenFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(golden.Folder(t, "gguf"), "*", "model.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no models (%v)", err)
	}
	return files
}

// export writes the model of dir as a file.
func export(t *testing.T, dir, kind string) (path string, s *convert.ExportSummary) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "model.gguf")
	s, err := exportTo(t, dir, convert.ExportOptions{Out: path, Type: kind})
	if err != nil {
		t.Fatal(err)
	}
	return path, s
}

func exportTo(t *testing.T, dir string, o convert.ExportOptions) (*convert.ExportSummary, error) {
	t.Helper()
	m, err := lm.OpenStored(dir)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return convert.Export(t.Context(), &convert.Folder{Dir: dir, Config: m.Config, Tensors: m.Tensors}, o)
}

func importTo(t *testing.T, file, dtype string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "model")
	if _, err := convert.Import(t.Context(), file, convert.Options{Out: dir, DType: dtype}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestExportIsTheInverse: of a folder that was imported, exported and imported again, all is as it was; the weights in
// float32 exactly, in half precision rounded.
func TestExportIsTheInverse(t *testing.T) {
	for _, file := range goldenFiles(t) {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			dir := importTo(t, file, "float32")
			for kind, tolerance := range map[string]float64{"f32": 0, "f16": 1.0 / 2048, "bf16": 1.0 / 256} {
				path, s := export(t, dir, kind)
				again := importTo(t, path, "float32")
				for _, name := range []string{"config.json", "generation_config.json", "tokenizer_config.json"} {
					if a, b := readJSON(t, filepath.Join(dir, name)), readJSON(t, filepath.Join(again, name)); !reflect.DeepEqual(a, b) {
						t.Errorf("%s: %s is\n%v, was\n%v", kind, name, b, a)
					}
				}
				if info, err := os.Stat(path); err != nil || info.Size() != s.Bytes {
					t.Errorf("%v bytes of %d (%v)", info, s.Bytes, err)
				}
				sameTokens(t, dir, again)
				sameWeights(t, dir, again, tolerance)
				if kind == "f32" {
					m, err := lm.Load(again, lm.Options{})
					if err != nil {
						t.Fatal(err)
					}
					checkLogits(t, filepath.Dir(file), m)
					checkTexts(t, filepath.Dir(file), again)
					m.Free()
				}
			}
		})
	}
}

func sameTokens(t *testing.T, dir, again string) {
	t.Helper()
	a, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tokenizer.Load(again)
	if err != nil {
		t.Fatal(err)
	}
	if string(a.JSON()) != string(b.JSON()) {
		t.Errorf("the tokenizer is\n%s, was\n%s", b.JSON(), a.JSON())
	}
}

func sameWeights(t *testing.T, dir, again string, tolerance float64) {
	t.Helper()
	a, err := safetensors.OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := safetensors.OpenModel(again)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if !slices.Equal(a.Names(), b.Names()) {
		t.Errorf("tensors are %v, were %v", b.Names(), a.Names())
	}
	for _, name := range a.Names() {
		x, _ := a.Tensor(name)
		y, _ := b.Tensor(name)
		was, err := x.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		is, err := y.Float32s()
		if err != nil || len(is) != len(was) {
			t.Fatal(name, err)
		}
		for i := range was {
			if d := math.Abs(float64(was[i] - is[i])); !(d <= tolerance*math.Abs(float64(was[i]))+tolerance*1e-4) {
				t.Errorf("%s: value %d is %v, was %v", name, i, is[i], was[i])
				break
			}
		}
	}
}
