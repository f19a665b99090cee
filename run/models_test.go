package run

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/lora"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tokenizer"
	"popri/testkit/testmodel"
	"popri/testkit/testworld"
)

// A run takes any architecture as its generator and a BERT folder as its encoder, and resumed it stays the same.
func TestOtherModels(t *testing.T) {
	w := testworld.Shared(t)
	tok := testmodel.Tokenizer(t, w.Generator)
	eos, _ := tok.EOS()
	random := rand.New(rand.NewPCG(1, 2))
	m, err := lm.New(lm.Config{Type: "qwen2", Vocab: tok.VocabSize(), Context: 128, Hidden: 32, Layers: 2, Heads: 4,
		KVHeads: 2, Inner: 64, NormEps: 1e-6, TiedHead: true, EOS: []int32{eos}, ScaleAttn: true, QKVBias: true,
		Rotary: lm.Rotary{Theta: 1e4}}, lm.Options{},
		random.NormFloat64)
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
	mustTrain(t, Options{Config: c, Dir: whole})
	s := mustOpen(t, Options{Config: c, Dir: parts})
	if key := s.Config.Provenance["encoder"]; !strings.HasPrefix(key, "bert-1x8-") {
		t.Errorf("the configuration names the encoder %q", key)
	}
	s.Close()
	mustTrain(t, Options{Dir: parts, Resume: true})
	sameRun(t, parts, whole)

	bad := c
	bad.Scoring.Encoder = filepath.Join(dir, "none")
	if _, err := Open(t.Context(), Options{Config: bad, Dir: t.TempDir()}); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), "scoring.encoder") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestFamilies: every family of today writes, is tuned and gives a product, in bfloat16, with the header of its prompts
// as a user's turn of its chat template; the adapters of the last round are read again.
func TestFamilies(t *testing.T) {
	w := testworld.Shared(t)
	tok := testmodel.Tokenizer(t, w.Generator)
	eos, _ := tok.EOS()
	base := lm.Config{Vocab: tok.VocabSize(), Context: 160, Hidden: 32, Layers: 2, Heads: 4, KVHeads: 2, Inner: 48,
		NormEps: 1e-6, EOS: []int32{eos}, ScaleAttn: true, Rotary: lm.Rotary{Theta: 1e4}}
	for name, change := range map[string]func(c *lm.Config){
		"gemma2": func(c *lm.Config) { c.TiedHead, c.AttnScale, c.AttnCap, c.LogitsCap = true, 0.3, 2, 5 },
		"gemma3_text": func(c *lm.Config) {
			c.TiedHead, c.AttnScale, c.LocalTheta, c.Local = true, 0.3, 100, []bool{true, false}
		},
		"gpt_neox": func(c *lm.Config) {
			c.KVHeads, c.Gelu, c.QKVBias, c.OutBias, c.Parallel, c.Rotary.Partial = 4, "gelu", true, true, true, 0.25
		},
		"granite": func(c *lm.Config) { c.EmbedScale, c.AttnScale, c.ResidualScale, c.LogitsScale = 6, 0.3, 0.5, 2 },
		"olmo2":   func(*lm.Config) {},
		"opt": func(c *lm.Config) {
			c.KVHeads, c.Gelu, c.FirstPosition, c.Rotary, c.TiedHead = 4, "relu", 2, lm.Rotary{}, true
			c.NormEps, c.OPT = 1e-5, lm.OPT{Width: 20}
		},
		"phi3":    func(c *lm.Config) { c.Rotary.Partial = 0.75 },
		"qwen3":   func(c *lm.Config) { c.TiedHead, c.Dim = true, 16 },
		"smollm3": func(c *lm.Config) { c.TiedHead, c.Unturned = true, []bool{false, true} },
	} {
		t.Run(name, func(t *testing.T) {
			shape := base
			shape.Type = name
			change(&shape)
			m, err := lm.New(shape, lm.Options{}, rand.New(rand.NewPCG(1, 2)).NormFloat64)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			err = errors.Join(m.Save(dir, safetensors.BF16), tok.Save(filepath.Join(dir, tokenizer.FileName)))
			m.Free()
			template := "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if " +
				"add_generation_prompt %}[model]\n{% endif %}"
			if err = errors.Join(err, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template),
				0o644)); err != nil {
				t.Fatal(err)
			}
			c := w.Config
			c.Model.Path, c.Model.DType = dir, "bfloat16"
			c.Generate.Chat, c.Generate.TemplateHeader, c.Generate.TemplateItem = true, "Write.", "# {i}"
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			out := t.TempDir()
			mustTrain(t, Options{Config: c, Dir: out})
			last := rundir.Round(out, c.Trainer.Rounds)
			prompts := rowsIn[sampling.PromptRow](t, filepath.Join(last, rundir.Prompts))
			if len(prompts) == 0 || !strings.HasPrefix(prompts[0].Text, "[user] Write.\n[model]\n# 1\n") {
				t.Errorf("prompts %.1v", prompts)
			}
			product := samplesIn(t, filepath.Join(out, rundir.Synthetic))
			if len(product) != c.Synthetic.Texts {
				t.Errorf("%d rows of the synthetic set", len(product))
			}
			loaded := testmodel.Load(t, dir, lm.Options{})
			defer loaded.Free()
			adapter, err := lora.Load(filepath.Join(last, "adapter"), loaded)
			if err != nil {
				t.Fatal(err)
			}
			adapter.Free()
		})
	}
}

// TestWeightsHeldOnce: without a copy of the model for sampling, a run writes what it writes with one; with weights in
// bfloat16 it ends, and a run that was killed continues to the same bytes.
func TestWeightsHeldOnce(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	c.Model.DType = "float32"
	copied, once := t.TempDir(), t.TempDir()
	mustTrain(t, Options{Config: c, Dir: copied})
	c.Model.Weights = "compute"
	mustTrain(t, Options{Config: c, Dir: once})
	a, b := testworld.Content(t, copied), testworld.Content(t, once)
	last := filepath.Join("rounds", fmt.Sprintf("%04d", c.Trainer.Rounds))
	for _, name := range []string{filepath.Join(last, rundir.Samples),
		filepath.Join(last, "adapter", "adapter_model.safetensors"), rundir.Synthetic} {
		if len(a[name]) == 0 || !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s: %d bytes with a copy for sampling, %d without, and they differ", name, len(a[name]),
				len(b[name]))
		}
	}
	c.Model.DType = "bfloat16"
	rounded := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: rounded})
	sameInterrupted(t, c, rounded, rounds.Stage{Name: "dpo", Round: 2})
}
