package downstream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/trainer"
)

// Point is one measurement during a fine-tuning.
type Point struct {
	Step     int     `json:"step"`
	Loss     float64 `json:"loss"`     // on the validation clients, nats a token
	Accuracy float64 `json:"accuracy"` // on the validation clients
}

// Batches of evaluation hold this many padded tokens.
const evalTokens = 8192

// A training writes its state at most once in this time: a model that trains in seconds writes none.
var checkpointEvery = time.Minute

// record is what a checkpoint holds of a fine-tuning besides the tensors.
type record struct {
	trainer.Progress
	Curve []Point `json:"curve"`
}

// FineTune trains m, whose weights are float32, on rows in random order, epoch after epoch, and leaves the weights of
// the best measurement on the validation rows in it. With an adapter it trains that instead, and merges it into m at the
// end. A training with the same arguments that was ended continues where
// the checkpoint's file says, whose name says of which training it is; "" keeps none. Of o.LearningRates, rate is used.
func FineTune(ctx context.Context, s *tensor.Scope, m *lm.Model, adapter *lora.Adapter, rows, validation []lm.Row,
	rate float64, o Options, checkpoint string) (best Point, curve []Point, err error) {
	if len(rows) == 0 || len(validation) == 0 {
		return best, nil, fmt.Errorf("downstream: %d texts to train on, %d to validate", len(rows), len(validation))
	}
	p, err := o.plan(len(rows), rate)
	if err != nil {
		return best, nil, err
	}
	validation = o.measured(validation)
	m.Compute, m.Recompute = o.Compute, o.Recompute
	trained, of := m.Trainable, lm.Adapter(nil)
	if adapter != nil {
		trained, of = adapter.Trainable, adapter
	}
	params, err := trained()
	if err != nil {
		return best, nil, err
	}
	optimizer := trainer.NewOptimizer(params, trainer.UsualAdamW(p.WeightDecay, p.MaxNorm))
	defer optimizer.Free()
	r := record{Progress: trainer.Begun()}
	loop := trainer.Loop{Optimizer: optimizer, Objective: p.objective(m, of, optimizer, rows),
		Batches: p.batches(len(rows)), Schedule: p.schedule, Updates: p.steps, MeasureEvery: p.every,
		MeasureFirst: true, Keep: trainer.BestWeights,
		Checkpoint: trainer.Checkpoint{Path: checkpoint, Every: checkpointEvery}, Record: &r}
	loop.Ended = func() bool {
		return o.Patience > 0 && r.Best >= 0 && len(r.Curve)-1-r.Best >= o.Patience
	}
	loop.Measure = func(ctx context.Context, done int) (bool, error) {
		loss, accuracy, err := m.Evaluate(s, validation, of, evalTokens, o.during(ctx))
		if err != nil {
			return false, err
		}
		point := Point{done, loss, accuracy}
		r.Curve = append(r.Curve, point)
		return r.Best < 0 || o.better(point, r.Curve[r.Best]), nil
	}
	loop.OnUpdate = func(done int) error {
		o.worked(backward * lm.Tokens(numeric.Pick(rows, loop.Batches.Indices(done-1))))
		return nil
	}
	if err := loop.Run(ctx); err != nil {
		return best, nil, fmt.Errorf("downstream: %w", err)
	}
	if adapter != nil {
		if err := adapter.MergeInto(m); err != nil {
			return best, nil, fmt.Errorf("downstream: %w", err)
		}
	}
	return r.Curve[r.Best], r.Curve, loop.Checkpoint.Remove()
}

// objective is the next-token loss of rows. Rows are computed in one pass, or in passes of rows of nearly one length.
func (p plan) objective(m *lm.Model, adapter lm.Adapter, o *trainer.Optimizer, rows []lm.Row) *trainer.NextToken {
	loss := &trainer.NextToken{Model: m, Adapter: adapter, Optimizer: o, Rows: trainer.InMemory(rows), Dropout: p.Dropout, Seed: p.Seed}
	if p.Micro > 0 {
		loss.Parts, loss.ByLength = trainer.PassesOf(p.Micro), true
	}
	return loss
}

// batches go over the rows in an order that follows from seed and epoch. Without epochs, they go over an epoch's end.
func (p plan) batches(rows int) *trainer.Epochs {
	return &trainer.Epochs{Examples: rows, Size: p.Batch, Across: p.Epochs == 0, Order: func(epoch int) []int {
		return rng.New(p.Seed, "downstream", "epoch", strconv.Itoa(epoch)).Perm(rows)
	}}
}
