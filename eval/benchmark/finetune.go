package benchmark

import (
	"context"
	"runtime"

	"popri/eval/downstream"
	"popri/internal/fault"
	"popri/model/tensor"
)

// FineTuneOptions are the size of the benchmark. The other settings are as for the POPri paper's DistilGPT2: AdamW at a
// constant 2e-4, no clipping, dropout 0.1.
type FineTuneOptions struct {
	Model     string       // folder with the model and rows.json
	Steps     int          // updates
	Batch     int          // rows of an update
	Micro     int          // rows of a pass; 0 for all
	DType     tensor.DType // of the products; weights and optimizer are float32
	Profile   bool         // say where the time goes
	Recompute bool         // gradient checkpointing
}

// FineTune times updates of all weights of a small model.
func FineTune(ctx context.Context, o FineTuneOptions) (*Result, error) {
	if o.Steps < 1 || o.Batch < 1 || o.Micro < 0 {
		return nil, fault.Userf("%d steps of %d rows, passes of %d: want at least 1, 1 and 0", o.Steps,
			o.Batch, o.Micro)
	}
	m, rows, tokens, err := readRows(o.Model, "rows.json", o.DType)
	if err != nil {
		return nil, err
	}
	defer m.Free()
	train := func(steps int) error {
		return tensor.Run(func(s *tensor.Scope) error {
			_, _, err := downstream.FineTune(ctx, s, m, nil, rows, rows[:1], 2e-4,
				downstream.Options{Steps: steps, Batch: o.Batch, Micro: o.Micro, Recompute: o.Recompute,
					Rows: downstream.Document, Schedule: "constant", Dropout: 0.1,
					EvalEvery: steps, Best: "loss", Seed: 1, Compute: o.DType}, "")
			return err
		})
	}
	// A fine-tuning has hundreds of updates; the first one, which also fetches memory, is not timed.
	if err := train(1); err != nil {
		return nil, err
	}
	runtime.GC() // its memory serves the next ones, as an update's memory serves the next update
	r, err := measure("finetune", o.DType.String(), "rows", o.Profile,
		func() (int, error) { return o.Steps * o.Batch, train(o.Steps) })
	if err != nil {
		return nil, err
	}
	// Three products a weight and token: the forward pass and the gradients of activations and weights.
	projections, head := inProducts(m)
	r.Flops = 6 * float64(projections+head) * float64(tokens) / float64(len(rows)) * float64(r.Items)
	return r, nil
}
