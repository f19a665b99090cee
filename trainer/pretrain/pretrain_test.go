package pretrain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/datasets"
	"popri/internal/fault"
	"popri/internal/filelock"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
)

// public makes n texts of few words, from the given number of sources; none where that is 0.
func public(n, sources int) datasets.Public {
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the cat sees a green door in the old garden at noon and follows two stones")
	var texts []datasets.Text
	for i := range n {
		var t []string
		for range 8 + random.IntN(6) {
			t = append(t, words[random.IntN(len(words))])
		}
		text := datasets.Text{Text: strings.Join(t, " ")}
		if sources > 0 {
			text.Source = fmt.Sprintf("source-%d", i*sources/n)
		}
		texts = append(texts, text)
	}
	return datasets.Public{Name: "made-up text", Prompts: texts[:n/2], Generator: texts}
}

func count(held []bool) (n int) {
	for _, h := range held {
		if h {
			n++
		}
	}
	return n
}

// Text of many sources is held out by source, other text by stretches; in each case some is, and little.
func TestHeldOut(t *testing.T) {
	for _, c := range []struct{ texts, sources, low, high int }{
		{8000, 2000, 30, 160}, {8000, 0, 16, 240}, {8000, 5, 16, 240}, {150, 0, 1, 16}, {20, 1, 1, 16}, {2, 0, 1, 1}} {
		texts := public(c.texts, c.sources).Generator
		held := heldOut(texts)
		if n := count(held); n < c.low || n > c.high {
			t.Errorf("%d texts of %d sources: %d held out, want %d to %d", c.texts, c.sources, n, c.low, c.high)
		}
		if c.sources < leastSources {
			continue
		}
		bySource := map[string]bool{}
		for i, x := range texts {
			if other, seen := bySource[x.Source]; seen && other != held[i] {
				t.Errorf("%s is held out in part", x.Source)
			}
			bySource[x.Source] = held[i]
		}
	}
}

// tiny is a recipe that takes a second or two.
func tiny(role string) Recipe {
	return Recipe{Role: role, Vocab: 300,
		Options: Options{Layers: 1, Width: 16, Heads: 2, Context: 32, Batch: 4, Steps: 60,
			LearningRate: 1e-2, MinLearningRate: 1e-3, Warmup: 5, WeightDecay: 0.1, Seed: 1, Compute: tensor.Float32}}
}

func provenance(r Recipe, p datasets.Public) func(int) Provenance {
	return func(vocab int) Provenance { return r.Provenance(vocab, p, "commit", "go", "texts.jsonl") }
}

// A model is trained once for a text and a recipe; its provenance names both; its held-out loss is below a uniform
// guess's.
func TestCache(t *testing.T) {
	p, dir := public(200, 0), t.TempDir()
	begun := 0
	cache := Cache{Dir: dir, Begin: func(c *Corpus, _ string) { begun++ }}
	first, made, err := cache.Model(t.Context(), p, tiny(Generator), provenance(tiny(Generator), p))
	if err != nil || !made {
		t.Fatalf("made %v, %v", made, err)
	}
	got, ok := ReadProvenance(first)
	if !ok || got.CorpusHash != p.Hash() ||
		!strings.HasPrefix(got.Command, "popri pretrain --public texts.jsonl --role generator") {
		t.Errorf("provenance %+v", got)
	}
	if !(got.HeldLoss > 0 && got.HeldLoss < 5) { // ln 300 is 5.7
		t.Errorf("held-out loss %v", got.HeldLoss)
	}
	tok := testmodel.Tokenizer(t, first)
	m := testmodel.Load(t, first, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	defer m.Free()
	if m.CheckVocabulary(tok.VocabSize()) != nil {
		t.Error("the vocabularies of model and tokenizer differ")
	}

	again, made, err := cache.Model(t.Context(), p, tiny(Generator), nil)
	if err != nil || made || again != first || begun != 1 {
		t.Errorf("again: %s, made %v, %d trainings, %v", again, made, begun, err)
	}
	names := map[string]bool{filepath.Base(first): true}
	other, more := tiny(Generator), public(201, 0)
	other.Options.Seed = 2
	for what, key := range map[string]string{"role": tiny(Device).key(p.Hash()), "seed": other.key(p.Hash()),
		"text": tiny(Generator).key(more.Hash())} {
		if names[key] {
			t.Errorf("another %s has the same folder", what)
		}
		names[key] = true
	}
}

// A training that is interrupted leaves no model; a later one continues, and is not disturbed by what a kill left.
func TestCacheInterrupted(t *testing.T) {
	p, dir := public(200, 0), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cache := Cache{Dir: dir, Each: func(Stats) { cancel() }}
	if _, _, err := cache.Model(ctx, p, tiny(Device), provenance(tiny(Device), p)); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			t.Errorf("%s was left behind", e.Name())
		}
	}
	left := filepath.Join(dir, ".tmp-"+tiny(Device).key(p.Hash()))
	if err := os.MkdirAll(filepath.Join(left, "model.safetensors"), 0o755); err != nil { // a folder cannot be overwritten
		t.Fatal(err)
	}
	var told []int
	cache.Each = func(s Stats) { told = append(told, s.Step) }
	got, made, err := cache.Model(t.Context(), p, tiny(Device), provenance(tiny(Device), p))
	if err != nil || !made || !slices.Equal(told, []int{60}) {
		t.Errorf("after an interruption at update 50: made %v, told of the updates %v (%v)", made, told, err)
	}
	want, _, err := Cache{Dir: t.TempDir()}.Model(t.Context(), p, tiny(Device), provenance(tiny(Device), p))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model.safetensors", provenanceFile} {
		if !slices.Equal(testfile.Read(t, filepath.Join(got, name)), testfile.Read(t, filepath.Join(want, name))) {
			t.Errorf("%s is another one after an interruption", name)
		}
	}
	if rest, _ := filepath.Glob(filepath.Join(dir, "*.training")); len(rest) > 0 {
		t.Errorf("%s was left behind", rest)
	}
}

// A second process waits for the first one's training.
func TestCacheWaits(t *testing.T) {
	p, dir := public(200, 0), t.TempDir()
	lock, err := filelock.Acquire(filepath.Join(dir, tiny(Device).key(p.Hash())+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	ctx, cancel := context.WithCancel(t.Context())
	told := ""
	cache := Cache{Dir: dir, Waiting: func(dir string) { told = dir; cancel() }}
	if _, _, err := cache.Model(ctx, p, tiny(Device), nil); !errors.Is(err, context.Canceled) ||
		!strings.HasPrefix(told, dir) {
		t.Errorf("told of %q, %v", told, err)
	}
}

func TestTooLittleText(t *testing.T) {
	for n := range 3 {
		p := public(n, 0)
		_, _, err := Cache{Dir: t.TempDir()}.Model(t.Context(), p, tiny(Generator), provenance(tiny(Generator), p))
		if !fault.IsUser(err) {
			t.Errorf("%d texts: %v", n, err)
		}
	}
}

// A small text is trained on for a few epochs only, a large one for the recipe's steps.
func TestSmall(t *testing.T) {
	few, many := Small(public(100, 0), Device, tensor.Float32), Small(public(100000, 0), Device, tensor.Float32)
	if few.Options.Steps != leastSteps || many.Options.Steps <= few.Options.Steps ||
		many.Options.Layers != few.Options.Layers {
		t.Errorf("%+v\n%+v", few, many)
	}
	if g := Small(public(100000, 0), Generator, tensor.Float32); g.Options.Width <= many.Options.Width ||
		len(Texts(public(10, 0), Device)) != 5 {
		t.Errorf("generator %+v", g)
	}
}
