package convert_test

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"popri/internal/modelcache"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/testkit/golden"
	"popri/testkit/testmodel"
)

// TestSmolLM2 compares the model that make demo MODEL=smollm2 imports with transformers' import of the same file: ids
// of prompts, the largest logits, and greedy continuations, token by token. It needs the model in the cache folder.
func TestSmolLM2(t *testing.T) {
	source, _ := modelcache.Find(modelcache.SmolLM2)
	dir, err := source.Installed()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Prompt      string
		IDs         []int32
		Top, Greedy []int32
		Logits      []float64
		Text        string
	}
	golden.ReadJSON(t, filepath.Join("testdata", "smollm2.json"), &cases)
	tok := testmodel.Tokenizer(t, dir)
	m := testmodel.Load(t, dir, lm.Options{})
	defer m.Free()
	for _, c := range cases {
		if got := tok.Encode(c.Prompt); !slices.Equal(got, c.IDs) {
			t.Errorf("%q has the ids %v, want %v", c.Prompt, got, c.IDs)
			continue
		}
		err := tensor.Run(func(s *tensor.Scope) error {
			ids := make([]int64, len(c.IDs))
			for i, id := range c.IDs {
				ids[i] = int64(id)
			}
			n := int64(len(ids))
			logits := m.Logits(s, m.Hidden(s, lm.Input{IDs: s.FromInt64(ids, 1, n)}, nil))
			last := s.Float32s(s.Narrow(logits, 1, n-1, 1))
			worst := 0.0
			for i, id := range c.Top {
				worst = max(worst, math.Abs(float64(last[id])-c.Logits[i]))
			}
			t.Logf("%.40q: largest difference of the %d largest logits: %.2g", c.Prompt, len(c.Top), worst)
			if !(worst <= 1e-3) {
				t.Errorf("%q: logits differ by %g", c.Prompt, worst)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.Generate(t.Context(), [][]int32{c.IDs}, 1,
			lm.SampleOptions{MaxNewTokens: len(c.Greedy), IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := out[0][0].IDs; !slices.Equal(got, c.Greedy) {
			t.Errorf("%q goes on with %v (%q), want %v (%q)", c.Prompt, got, tok.Decode(got, false), c.Greedy, c.Text)
		}
	}
}
