package textgen_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/model/tokenizer"
	"popri/run/textgen"
)

// smallModel makes a model's folder with random weights, in place of one that popri model get fetches.
func smallModel(dir string) error {
	tok, err := tokenizer.TrainBPE(func(yield func(string) bool) {
		_ = yield("the harbour at night and the storm at sea")
	}, tokenizer.TrainOptions{VocabSize: 270, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		return err
	}
	if err := tok.Save(filepath.Join(dir, tokenizer.FileName)); err != nil {
		return err
	}
	m, err := lm.New(lm.Config{Type: "gpt2", Vocab: tok.VocabSize(), Context: 32, Hidden: 16, Layers: 1, Heads: 2,
		Inner: 32, NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, ScaleAttn: true}, lm.Options{},
		rand.New(rand.NewPCG(1, 2)).NormFloat64)
	if err != nil {
		return err
	}
	defer m.Free()
	return m.Save(dir, safetensors.F32)
}

// A model's folder and a file of prompts give samples, as popri generate writes them.
func Example() {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := smallModel(dir); err != nil {
		panic(err)
	}

	tok, err := tokenizer.Load(dir)
	if err != nil {
		panic(err)
	}
	model, err := textgen.LoadModel(dir, "", tensor.Float32) // the second argument names an adapter's folder
	if err != nil {
		panic(err)
	}
	defer model.Free()
	prompts, err := textgen.ReadPrompts(strings.NewReader(`{"prompt": "the storm"}`), "prompts.jsonl", tok, "")
	if err != nil {
		panic(err)
	}
	drawn, err := textgen.Draw(context.Background(), model, tok, prompts, textgen.Options{Samples: 4,
		SampleOptions: lm.SampleOptions{Temperature: 1, MaxNewTokens: 8, Seed: 7}})
	if err != nil {
		panic(err)
	}
	for _, s := range drawn.Samples {
		fmt.Println(s.Prompt, s.Sample, s.Before)
	}
	// Output:
	// 0 0 the storm
	// 0 1 the storm
	// 0 2 the storm
	// 0 3 the storm
}
