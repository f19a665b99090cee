// Package testworld builds a complete world for tests, small enough that a whole run takes a second or two: made-up
// clients in a Parquet file, public texts, a tokenizer, two tiny models trained on the public texts, and a
// configuration with seeded noise that names them.
//
// Its sentences are drawn from fixed lists of words. Clients prefer other words than the public texts do, so that
// scores and fine-tuning have something to find.
package testworld

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/internal/atomicfile"
	"popri/internal/datakey"
	"popri/internal/parquetio"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/model/tokenizer"
	"popri/trainer"
)

// Main runs a package's tests under a temporary key, so that they leave the user's alone, and returns the exit code.
// Packages whose tests begin runs call it in TestMain.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "popri-key-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv(datakey.Variable, filepath.Join(dir, "data.key")); err != nil {
		panic(err)
	}
	defer func() {
		if shared.world != nil {
			os.RemoveAll(shared.world.Dir)
		}
	}()
	return m.Run()
}

// World has the paths of its files.
type World struct {
	Dir       string
	Private   string // Parquet file of 30 train, 5 validation and 8 test clients
	Public    string // JSON lines
	Generator string // model folder
	Device    string // model folder
	File      string // the configuration as YAML
	Config    configs.Config
	// The same texts with a label each, see [Label].
	LabelledPrivate, LabelledPublic string
}

var (
	subjects = []string{"the cat", "a small dog", "the old house", "my neighbour", "the red boat", "an engine"}
	verbs    = []string{"sees", "carries", "follows", "finds", "turns", "holds"}
	objects  = []string{"the hat", "a green door", "two stones", "the river", "some bread", "a long rope"}
	private  = []string{"in the harbour", "near the harbour wall", "before the storm"} // clients' endings
	public   = []string{"in the garden", "at noon", "for a while", "before the storm"}
)

func sentence(r *rand.Rand, endings []string) string {
	one := func(list []string) string { return list[r.IntN(len(list))] }
	return one(subjects) + " " + one(verbs) + " " + one(objects) + " " + one(endings) + "."
}

type clientRow struct {
	Client string `parquet:"client_id,dict"`
	Split  string `parquet:"split,dict"`
	Text   string `parquet:"text"`
}

type labelledRow struct {
	Client string `parquet:"client_id,dict"`
	Split  string `parquet:"split,dict"`
	Text   string `parquet:"text"`
	Label  string `parquet:"label,dict"`
}

// Label is the label of a sentence: whether its subject lives.
func Label(text string) string {
	for _, s := range []string{"the cat", "a small dog", "my neighbour"} {
		if strings.HasPrefix(text, s) {
			return "alive"
		}
	}
	return "thing"
}

// New builds the world in dir, which exists. The same program builds the same bytes.
func New(dir string) (*World, error) {
	w := &World{Dir: dir, Private: filepath.Join(dir, "clients.parquet"), Public: filepath.Join(dir, "public.jsonl"),
		Generator: filepath.Join(dir, "generator"), Device: filepath.Join(dir, "device"), File: filepath.Join(dir, "world.yaml"),
		LabelledPrivate: filepath.Join(dir, "labelled.parquet"), LabelledPublic: filepath.Join(dir, "labelled.jsonl")}
	r := rand.New(rand.NewPCG(1, 2))
	texts, err := w.writeTexts(r)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.TrainBPE(slices.Values(texts),
		tokenizer.TrainOptions{VocabSize: 320, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		return nil, err
	}
	if err := w.writeModel(w.Generator, tok, texts, r, 40); err != nil {
		return nil, err
	}
	if err := w.writeModel(w.Device, tok, texts, r, 15); err != nil {
		return nil, err
	}
	w.configure()
	return w, atomicfile.WriteBytes(w.File, w.Config.YAML())
}

// Make builds the world in a folder of the test's own.
func Make(t testing.TB) *World {
	t.Helper()
	w, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *World) writeTexts(r *rand.Rand) (texts []string, err error) {
	var rows []clientRow
	var labelled []labelledRow
	owned := map[string]bool{}
	for _, part := range []struct {
		split string
		n     int
	}{{"train", 30}, {"validation", 5}, {"test", 8}} {
		for i := range part.n {
			for range 3 {
				text := sentence(r, private)
				owned[text] = true
				row := clientRow{fmt.Sprintf("%s-%02d", part.split, i), part.split, text}
				rows, labelled = append(rows, row), append(labelled, labelledRow{row.Client, row.Split, row.Text, Label(text)})
			}
		}
	}
	err = atomicfile.Write(w.Private, func(out io.Writer) error { return parquetio.Write(out, rows, nil) })
	if err != nil {
		return nil, err
	}
	err = atomicfile.Write(w.LabelledPrivate, func(out io.Writer) error { return parquetio.Write(out, labelled, nil) })
	if err != nil {
		return nil, err
	}
	var lines, withLabels bytes.Buffer
	for range 150 {
		t := sentence(r, public)
		for owned[t] { // a run refuses public texts that are clients' texts
			t = sentence(r, public)
		}
		texts = append(texts, t)
		b, err := json.Marshal(map[string]string{"text": t})
		if err != nil {
			return nil, err
		}
		lines.Write(append(b, '\n'))
		if b, err = json.Marshal(map[string]string{"text": t, "label": Label(t)}); err != nil {
			return nil, err
		}
		withLabels.Write(append(b, '\n'))
	}
	if err := atomicfile.WriteBytes(w.LabelledPublic, withLabels.Bytes()); err != nil {
		return nil, err
	}
	return texts, atomicfile.WriteBytes(w.Public, lines.Bytes())
}

// writeModel trains a model of two layers on lines of texts for a few steps.
func (w *World) writeModel(dir string, tok *tokenizer.Tokenizer, texts []string, r *rand.Rand, steps int) error {
	eos, ok := tok.EOS()
	if !ok {
		return fmt.Errorf("testworld: the tokenizer has no end-of-text token")
	}
	m, err := lm.New(lm.Config{Type: "gpt2", Vocab: tok.VocabSize(), Context: 128, Hidden: 32, Layers: 2, Heads: 2,
		Inner: 64, NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, EOS: []int32{eos}, ScaleAttn: true},
		lm.Options{Weights: tensor.Float32, Compute: tensor.Float32}, r.NormFloat64)
	if err != nil {
		return err
	}
	defer m.Free()
	params, err := m.Trainable()
	if err != nil {
		return err
	}
	t := trainer.NewOptimizer(params, trainer.UsualAdamW(0, 1))
	defer t.Free()
	loss := trainer.NextToken{Model: m, Optimizer: t}
	for range steps {
		rows := make([]lm.Row, 8)
		for i := range rows {
			var lines strings.Builder
			for range 4 {
				lines.WriteString(texts[r.IntN(len(texts))] + "\n")
			}
			ids := append([]int32{eos}, tok.Encode(lines.String())...)
			rows[i].Tokens = ids[:min(len(ids), 128)]
		}
		if _, _, err := loss.Step(rows, 1e-2); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := tok.Save(filepath.Join(dir, tokenizer.FileName)); err != nil {
		return err
	}
	return m.Save(dir, safetensors.F32)
}

// Set sets keys of methods, as far as the test has the methods.
func Set(c *configs.Config, assignments ...string) {
	for _, a := range assignments {
		name, value, _ := strings.Cut(a, "=")
		if _, known := c.Get(name); !known {
			continue
		}
		if err := c.Set(name, value); err != nil {
			panic(err)
		}
	}
}

func (w *World) configure() {
	c := configs.Default()
	c.Data.Private, c.Data.Public, c.Data.MaxTokens = w.Private, w.Public, 40
	c.Model.Path, c.Model.DType = w.Generator, "float32"
	c.Generate.Prompts, c.Generate.Samples, c.Generate.Examples = 12, 4, 1
	c.Generate.MaxNewTokens, c.Generate.MinNewTokens = 24, 2
	c.Generate.Quote, c.Synthetic.PublicTexts = "public", 0
	c.Scoring.Dim, c.Scoring.Release = 8, "rounds"
	c.Privacy.Epsilon, c.Privacy.Delta, c.Privacy.InsecureSeededNoise = 20, 1e-3, true
	c.LoRA.Rank = 2
	c.DPO.RejectedRank, c.Optimizer.Batch, c.Optimizer.WarmupSteps = 3, 4, 1
	Set(&c, "private_evolution.population=24", "public_selection.texts=60", "genetic_eda.population=40",
		"genetic_eda.parents=6")
	c.Trainer.Rounds = 2
	c.Synthetic.Texts, c.Synthetic.Samples = 40, 2
	c.Downstream.Model = w.Device
	c.Downstream.Steps, c.Downstream.Batch, c.Downstream.Length = 12, 8, 40
	c.Downstream.LearningRates = []float64{5e-3}
	c.Downstream.EvalEvery = 4
	w.Config = c
}
