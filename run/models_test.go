package run

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/internal/testworld"
	"popri/methods/rounds"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tokenizer"
)

// A run takes any architecture as its generator and a BERT folder as its encoder, and resumed it stays the same.
func TestOtherModels(t *testing.T) {
	w := testworld.Shared(t)
	tok, err := tokenizer.Load(w.Generator)
	if err != nil {
		t.Fatal(err)
	}
	eos, _ := tok.EOS()
	random := rand.New(rand.NewPCG(1, 2))
	m, err := lm.New(lm.Config{Type: "qwen2", Vocab: tok.VocabSize(), Context: 128, Hidden: 32, Layers: 2, Heads: 4, KVHeads: 2, Inner: 64, NormEps: 1e-6, TiedHead: true,
		EOS: []int32{eos}, ScaleAttn: true, QKVBias: true, Rotary: lm.Rotary{Theta: 1e4}}, lm.Options{}, random.NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	err = errors.Join(m.Save(dir, safetensors.F32), tok.Save(filepath.Join(dir, tokenizer.FileName)))
	m.Free()
	if err != nil {
		t.Fatal(err)
	}
	c := w.Config
	c.Model.Path, c.Scoring.Encoder = dir, filepath.Join("..", "testdata", "golden", "sentence", "bert-first")
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	whole, parts := t.TempDir(), t.TempDir()
	if err := train(t.Context(), Options{Config: c, Dir: whole}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{Config: c, Dir: parts})
	if err != nil {
		t.Fatal(err)
	}
	if key := s.Config.Provenance["encoder"]; !strings.HasPrefix(key, "bert-1x8-") {
		t.Errorf("the configuration names the encoder %q", key)
	}
	s.Close()
	if err := train(t.Context(), Options{Dir: parts, Resume: true}); err != nil {
		t.Fatal(err)
	}
	sameRun(t, parts, whole)

	bad := c
	bad.Scoring.Encoder = filepath.Join(dir, "none")
	if _, err := Open(t.Context(), Options{Config: bad, Dir: t.TempDir()}); !fault.IsUser(err) || !strings.Contains(err.Error(), "scoring.encoder") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestWeightsHeldOnce: without a copy of the model for sampling, a run writes what it writes with one; with weights in
// bfloat16 it ends, and a run that was killed goes on to the same bytes.
func TestWeightsHeldOnce(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	c.Model.DType = "float32"
	copied, once := t.TempDir(), t.TempDir()
	if err := train(t.Context(), Options{Config: c, Dir: copied}); err != nil {
		t.Fatal(err)
	}
	c.Model.Weights = "compute"
	if err := train(t.Context(), Options{Config: c, Dir: once}); err != nil {
		t.Fatal(err)
	}
	a, b := testworld.Content(t, copied), testworld.Content(t, once)
	last := filepath.Join("rounds", fmt.Sprintf("%04d", c.Trainer.Rounds))
	for _, name := range []string{filepath.Join(last, rundir.Samples), filepath.Join(last, "adapter", "adapter_model.safetensors"),
		rundir.Synthetic} {
		if len(a[name]) == 0 || !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s: %d bytes with a copy for sampling, %d without, and they differ", name, len(a[name]), len(b[name]))
		}
	}
	c.Model.DType = "bfloat16"
	rounded := t.TempDir()
	if err := train(t.Context(), Options{Config: c, Dir: rounded}); err != nil {
		t.Fatal(err)
	}
	sameInterrupted(t, c, rounded, rounds.Stage{Name: "dpo", Round: 2})
}
