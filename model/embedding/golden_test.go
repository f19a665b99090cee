package embedding_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"popri/model/embedding"
	"popri/model/embedding/sentence"
	"popri/model/safetensors"
	"popri/testkit/golden"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
)

type text struct {
	Kind, Text string
	IDs        []int32
}

func strs(texts []text) []string {
	out := make([]string, len(texts))
	for i, x := range texts {
		out[i] = x.Text
	}
	return out
}

// goldenEmbeddings compares an encoder with the reference's embeddings. The weights of some folders are not part of the
// golden data: $POPRI_MINILM names their folder. Without it, only their ids are checked.
func goldenEmbeddings(t *testing.T, open func(dir string) (embedding.Encoder, error)) {
	root := golden.Root(t)
	var folders []string
	for _, of := range []string{filepath.Join(root, "embedding"), golden.Folder(t, "sentence")} {
		found, err := filepath.Glob(filepath.Join(of, "*", "meta.json"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no embeddings under %s: %v", of, err)
		}
		folders = append(folders, found...)
	}
	for _, meta := range folders {
		dir := filepath.Dir(meta)
		name := filepath.Base(dir)
		kind := filepath.Base(filepath.Dir(dir)) + "/" + name
		t.Run(name, func(t *testing.T) {
			var m struct {
				Weights   string
				MaxTokens int `json:"max_seq_length"`
				Dimension int
			}
			golden.ReadJSON(t, meta, &m)
			texts := testfile.ReadLines[text](t, filepath.Join(dir, "texts.jsonl"))
			weights := dir
			if m.Weights != "here" {
				if weights = os.Getenv("POPRI_MINILM"); weights == "" {
					checkIDs(t, filepath.Join(root, "tokenizers", name), m.MaxTokens, texts)
					golden.Checked(t, "embedding/"+name+" (ids)", len(texts))
					t.Logf("golden: embedding/%s: the weights are not here, POPRI_MINILM names no folder", name)
					return
				}
			}
			f, err := sentence.Open(weights)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range texts {
				if got := f.IDs(x.Text); !slices.Equal(got, x.IDs) {
					t.Errorf("%.60q: ids %v, want %v", x.Text, got, x.IDs)
				}
			}
			if f.MaxTokens != m.MaxTokens {
				t.Errorf("at most %d tokens, want %d", f.MaxTokens, m.MaxTokens)
			}
			checkMultiplied(t, f)
			f.Close()
			e, err := open(weights)
			if err != nil {
				t.Fatal(err)
			}
			file, err := safetensors.Open(filepath.Join(dir, "embeddings.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			stored, _ := file.Tensor("embeddings")
			want, err := stored.Float32s()
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Encode(strs(texts))
			if err != nil {
				t.Fatal(err)
			}
			if got.Dim != m.Dimension || len(got.Data) != len(want) {
				t.Fatalf("%d×%d values, want %d of %d", got.Rows, got.Dim, len(want), m.Dimension)
			}
			for i := range want {
				if d := math.Abs(float64(got.Data[i] - want[i])); !(d <= 5e-6) {
					t.Errorf("text %d (%.60q): value %d is %g, want %g", i/got.Dim, texts[i/got.Dim].Text,
						i%got.Dim, got.Data[i], want[i])
				}
			}
			golden.Checked(t, kind, len(texts))
		})
	}
}

// checkMultiplied compares what a plan counts with the weights that are there.
func checkMultiplied(t *testing.T, f *sentence.Folder) {
	t.Helper()
	w, err := f.Weights()
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, l := range w.Layers {
		want += len(l.QKV) + len(l.Out) + len(l.Up) + len(l.Gate) + len(l.Down)
	}
	if got, err := sentence.Multiplied(f.Dir); err != nil || got != want {
		t.Errorf("%v: a token is multiplied with %d weights, want %d", err, got, want)
	}
}

func checkIDs(t *testing.T, dir string, most int, texts []text) {
	t.Helper()
	tok := testmodel.Tokenizer(t, dir)
	prefix, suffix := tok.Template()
	for _, x := range texts {
		ids := tok.Encode(x.Text)
		ids = ids[:min(len(ids), most-len(prefix)-len(suffix))]
		if got := slices.Concat(prefix, ids, suffix); !slices.Equal(got, x.IDs) {
			t.Errorf("%.60q: ids %v, want %v", x.Text, got, x.IDs)
		}
	}
}
