package policy

import (
	"context"
	"strconv"

	"popri/dpo/preference"
	"popri/internal/rng"
	"popri/methods/rounds"
	"popri/model/lm"
	"popri/trainer"
)

// FineTuning says how adapters are trained on texts by the next-token loss.
type FineTuning struct {
	Steps, Batch int
	LearningRate float64  // constant
	Stream       []string // of the order of the rows
}

// FineTune trains the adapters on rows, epoch after epoch, and returns the mean loss in nats a token over all steps.
// The section optimizer has AdamW's other settings. FineTune keeps no state on disk.
func (p *Policy) FineTune(ctx context.Context, stage rounds.Stage, examples []lm.Row, f FineTuning) (float64, error) {
	o := p.Config.Optimizer
	params, err := p.Adapter.Trainable()
	if err != nil {
		return 0, err
	}
	p.Model.Recompute = o.GradientCheckpointing
	optimizer := trainer.NewOptimizer(params, preference.Optimizer(o))
	defer optimizer.Free()
	defer p.Model.Unpack() // what the training laid out
	longest := 0
	for _, r := range examples {
		longest = max(longest, len(r.Tokens))
	}
	bytes := p.Model.Config.Activations(int64(longest), int64(longest), p.Model.Compute, p.Model.Recompute)
	mean := 0.0
	loss := &trainer.NextToken{Model: p.Model, Adapter: p.Adapter, Optimizer: optimizer,
		Rows: trainer.InMemory(examples), Parts: trainer.PassesOf(trainer.PassSize(bytes, int64(longest), f.Batch)),
		Done: func(_ trainer.Update, loss float64) { mean += loss / float64(f.Steps) }}
	epochs := &trainer.Epochs{Examples: len(examples), Size: f.Batch, Order: func(epoch int) []int {
		return rng.New(p.Config.Seed, append(f.Stream[:len(f.Stream):len(f.Stream)],
			strconv.Itoa(epoch))...).Perm(len(examples))
	}}
	loop := trainer.Loop{Optimizer: optimizer, Objective: loss, Batches: epochs,
		Schedule: trainer.Constant(f.LearningRate),
		Updates:  f.Steps, OnUpdate: func(done int) error {
			stage.Progress(done, f.Steps)
			return nil
		}}
	err = loop.Run(ctx)
	return mean, err
}
