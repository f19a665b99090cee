package lora_test

import (
	"fmt"
	"math/rand/v2"
	"os"

	"popri/lora"
	"popri/model/lm"
)

// An adapter for all projections of a model, written in PEFT's format and read back.
func Example() {
	random := rand.New(rand.NewPCG(1, 2))
	model, err := lm.New(lm.Config{Type: "gpt2", Vocab: 64, Context: 32, Hidden: 32, Layers: 2, Heads: 2, Inner: 64,
		NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, ScaleAttn: true}, lm.Options{}, random.NormFloat64)
	if err != nil {
		panic(err)
	}
	defer model.Free()
	adapter, err := lora.New(model, lora.Config{Rank: 4, Alpha: 8}, random)
	if err != nil {
		panic(err)
	}
	defer adapter.Free()
	dir, err := os.MkdirTemp("", "adapter")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := adapter.Save(dir); err != nil {
		panic(err)
	}
	again, err := lora.Load(dir, model)
	if err != nil {
		panic(err)
	}
	defer again.Free()
	files, err := os.ReadDir(dir)
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		fmt.Println(f.Name())
	}
	// Output:
	// adapter_config.json
	// adapter_model.safetensors
}
