package dpo_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"popri/dpo"
	"popri/lora"
	"popri/model/lm"
	"popri/trainer"
)

// Preference training of a model's adapter on pairs of token ids. lm.Load and lora.Load read folders of Hugging Face's
// and PEFT's form; here both are made at random.
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

	loss, err := dpo.NewLoss("sigmoid", dpo.Params{Beta: 0.1})
	if err != nil {
		panic(err)
	}
	tuner, err := dpo.NewTuner(model, adapter, dpo.Options{Loss: loss, Beta: 0.1, BatchPairs: 2, MicroPairs: 2,
		Schedule: trainer.Schedule{Kind: "cosine", Peak: 1e-2, Total: 20},
		AdamW:    trainer.AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, MaxNorm: 1}})
	if err != nil {
		panic(err)
	}
	defer tuner.Optimizer.Free()

	pairs := []dpo.Pair{
		{Prompt: []int32{1, 2, 3}, Chosen: []int32{10, 11, 12}, Rejected: []int32{40, 41}},
		{Prompt: []int32{4, 5}, Chosen: []int32{13, 14}, Rejected: []int32{42, 43, 44}},
	}
	if err := tuner.Reference(context.Background(), pairs); err != nil {
		panic(err)
	}
	fit := dpo.Fit{Tuner: tuner, Pairs: pairs, Epochs: 20, Order: func(epoch int) []int { return []int{0, 1} }}
	outcome, err := fit.Run(context.Background())
	if err != nil {
		panic(err)
	}
	first, last := outcome.Steps[0], outcome.Steps[len(outcome.Steps)-1]
	fmt.Printf("%d updates, the loss begins at %.3f\n", outcome.Updates, first.Loss)
	fmt.Println("it falls:", last.Loss < first.Loss, "and chosen completions are preferred:", last.Accuracy == 1)
	// Output:
	// 20 updates, the loss begins at 0.693
	// it falls: true and chosen completions are preferred: true
}
