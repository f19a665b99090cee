package trainer_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"popri/model/lm"
	"popri/trainer"
)

// A model's own weights are trained on rows of tokens, in a new order each epoch.
func ExampleLoop() {
	random := rand.New(rand.NewPCG(1, 2))
	model, err := lm.New(lm.Config{Type: "gpt2", Vocab: 32, Context: 16, Hidden: 16, Layers: 1, Heads: 2, Inner: 32,
		NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, ScaleAttn: true}, lm.Options{}, random.NormFloat64)
	if err != nil {
		panic(err)
	}
	defer model.Free()
	params, err := model.Trainable()
	if err != nil {
		panic(err)
	}
	optimizer := trainer.NewOptimizer(params, trainer.AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, MaxNorm: 1})
	defer optimizer.Free()

	rows := []lm.Row{{Tokens: []int32{1, 2, 3, 4}}, {Tokens: []int32{5, 6, 7}}, {Tokens: []int32{1, 2, 8}}}
	var losses []float64
	loop := trainer.Loop{Optimizer: optimizer,
		Objective: &trainer.NextToken{Model: model, Optimizer: optimizer, Rows: trainer.InMemory(rows),
			Done: func(_ trainer.Update, loss float64) { losses = append(losses, loss) }},
		Batches: &trainer.Epochs{Examples: len(rows), Size: 2, Order: func(epoch int) []int {
			return rand.New(rand.NewPCG(7, uint64(epoch))).Perm(len(rows))
		}},
		Schedule: trainer.Constant(1e-2), Updates: 40}
	if err := loop.Run(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println(len(losses), "updates; the loss falls:", losses[len(losses)-1] < losses[0])
	// Output:
	// 40 updates; the loss falls: true
}
