package convert_test

import (
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"popri/model/convert"
	"popri/model/gguf"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/testkit/golden"
	"popri/testkit/goldentensor"
	"popri/testkit/testmodel"
)

// TestGoldenImport imports small models and compares logits and greedy continuations with transformers' own import of
// the same file, or with the transformers model that it was made of, and the ids of texts with tokenizers'.
func TestGoldenImport(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden.Folder(t, "gguf"), "*", "model.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("there are no models")
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			s, err := convert.Import(t.Context(), file, convert.Options{Out: dir})
			if err != nil {
				t.Fatal(err)
			}
			m := testmodel.Load(t, dir, lm.Options{})
			defer m.Free()
			if n := m.Parameters(); n != s.Parameters {
				t.Errorf("%d parameters were imported, the model has %d", s.Parameters, n)
			}
			checkExact(t, file, m)
			checked := checkLogits(t, filepath.Dir(file), m)
			checked += checkTexts(t, filepath.Dir(file), dir)
			golden.Checked(t, "gguf/"+name, checked)
		})
	}
}

// checkExact compares the token embedding, which no conversion permutes, with the file's.
func checkExact(t *testing.T, file string, m *lm.Model) {
	t.Helper()
	f, err := gguf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, _ := f.Tensor("token_embd.weight")
	want := make([]float32, x.NumElements())
	if err := f.Reader(x).Read(want, 0); err != nil {
		t.Fatal(err)
	}
	name := "model.embed_tokens.weight"
	if m.Config.Type == "gpt2" {
		name = "transformer.wte.weight"
	}
	err = tensor.Run(func(s *tensor.Scope) error {
		if got := s.Float32s(m.Param(name)); !slices.Equal(got, want) {
			t.Errorf("%s differs from the file's", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

type cases struct {
	Greedy []struct{ Prompt, Continuation []int32 }
	Texts  []struct {
		Text string
		IDs  []int32
	}
}

func checkLogits(t *testing.T, dir string, m *lm.Model) int {
	t.Helper()
	var list cases
	golden.ReadJSON(t, filepath.Join(dir, "cases.json"), &list)
	c := goldentensor.Open(t, filepath.Join(dir, "logits.safetensors"))
	for i, g := range list.Greedy {
		err := tensor.Run(func(s *tensor.Scope) error {
			ids := c.Load(s, strconv.Itoa(i)+"/ids")
			n := ids.Size(0)
			want := s.Float32s(c.Load(s, strconv.Itoa(i)+"/logits"))
			logits := m.Logits(s, m.Hidden(s, lm.Input{IDs: s.View(ids, 1, n)}, nil))
			got := s.Float32s(s.Narrow(logits, 1, n-2, 2))
			if len(got) != len(want) {
				t.Fatalf("%d logits, want %d", len(got), len(want))
			}
			worst, largest := 0.0, 1.0
			for j := range got {
				worst, largest = max(worst, math.Abs(float64(got[j]-want[j]))), max(largest, math.Abs(float64(want[j])))
			}
			t.Logf("prompt %d: largest difference of %d logits: %.2g", i, len(got), worst)
			if !(worst <= 1e-5*largest) {
				t.Errorf("prompt %d: the logits differ by %g", i, worst)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.Generate(t.Context(), [][]int32{g.Prompt}, 1, lm.SampleOptions{MaxNewTokens: len(g.Continuation),
			IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(out[0][0].IDs, g.Continuation) {
			t.Errorf("prompt %d goes on with %v, want %v", i, out[0][0].IDs, g.Continuation)
		}
	}
	return 2 * len(list.Greedy)
}

func checkTexts(t *testing.T, dir, imported string) int {
	t.Helper()
	var list cases
	golden.ReadJSON(t, filepath.Join(dir, "cases.json"), &list)
	tok := testmodel.Tokenizer(t, imported)
	checked := 0
	for _, c := range list.Texts {
		if got := tok.Encode(c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("%q has the ids %v, want %v", c.Text, got, c.IDs)
		}
		checked++
	}
	return checked
}
