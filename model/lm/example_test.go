package lm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
)

// A folder of Hugging Face's form is loaded, and the model writes samples of two prompts. Here the folder is made
// first, with random weights; of a real one, package tokenizer reads the tokenizer.json.
func Example() {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	random := rand.New(rand.NewPCG(1, 2))
	made, err := lm.New(lm.Config{Type: "llama", Vocab: 64, Context: 32, Hidden: 32, Layers: 2, Heads: 4, KVHeads: 2,
		Inner: 64, NormEps: 1e-5, ScaleAttn: true, Rotary: lm.Rotary{Theta: 1e4}}, lm.Options{}, random.NormFloat64)
	if err != nil {
		panic(err)
	}
	err = made.Save(dir, safetensors.F32)
	made.Free()
	if err != nil {
		panic(err)
	}

	model, err := lm.Load(dir, lm.Options{Compute: tensor.Float32, Sampling: true})
	if err != nil {
		panic(err)
	}
	defer model.Free()
	prompts := [][]int32{{1, 2, 3}, {4, 5}}
	samples, err := model.Generate(context.Background(), prompts, 3, lm.SampleOptions{Temperature: 1, TopP: 0.9,
		MinNewTokens: 8, MaxNewTokens: 8, Seed: 7})
	if err != nil {
		panic(err)
	}
	for i, of := range samples {
		fmt.Printf("prompt %d: %d samples of %d tokens\n", i, len(of), len(of[0].IDs))
	}
	// Output:
	// prompt 0: 3 samples of 8 tokens
	// prompt 1: 3 samples of 8 tokens
}
