package downstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"popri/internal/rng"
	"popri/lm"
	"popri/optim"
	"popri/tensor"
	"popri/tokenizer"
)

// Options are the settings of a fine-tuning.
type Options struct {
	Steps        int
	Batch        int     // texts in a step
	Length       int     // tokens to which texts are cut
	LearningRate float64 // peak of a cosine to zero
	WeightDecay  float64
	Warmup       int // steps
	EvalEvery    int // steps between measurements on the validation clients
	Seed         uint64
	Compute      tensor.DType
	// Progress, if not nil, is called with every measurement.
	Progress func(Point)
}

// Point is one measurement during a fine-tuning.
type Point struct {
	Step     int     `json:"step"`
	Loss     float64 `json:"loss"`     // on the validation clients, nats a token
	Accuracy float64 `json:"accuracy"` // on the validation clients
}

// Encode turns texts into rows: the separator, the text and a line's end, cut to length tokens. The models were trained
// on rows of this form.
func Encode(tok *tokenizer.Tokenizer, separator int32, texts []string, length int) []lm.Row {
	end := tok.Encode("\n")
	rows := make([]lm.Row, 0, len(texts))
	for _, t := range texts {
		ids := append([]int32{separator}, tok.Encode(t)...)
		ids = append(ids, end...)
		if len(ids) > length {
			ids = ids[:length]
		}
		rows = append(rows, lm.Row{Tokens: ids})
	}
	return rows
}

// Batches of evaluation hold this many padded tokens.
const evalTokens = 8192

// FineTune trains m, whose weights are float32, on rows in random order, epoch after epoch, and leaves the weights of
// the step with the least validation loss in it.
func FineTune(ctx context.Context, s *tensor.Scope, m *lm.Model, rows, validation []lm.Row,
	o Options) (best Point, curve []Point, err error) {
	if len(rows) == 0 || len(validation) == 0 {
		return best, nil, fmt.Errorf("downstream: %d texts to train on, %d to validate", len(rows), len(validation))
	}
	if o.Steps < 1 || o.Batch < 1 || o.EvalEvery < 1 {
		return best, nil, errors.New("downstream: steps, batch and eval_every must be positive")
	}
	schedule := optim.Schedule{Kind: "cosine", Peak: o.LearningRate, Warmup: min(o.Warmup, o.Steps-1), Total: o.Steps}
	if err := schedule.Check(); err != nil {
		return best, nil, err
	}
	m.Compute = o.Compute
	params, err := m.Trainable()
	if err != nil {
		return best, nil, err
	}
	t := lm.NewOptimizer(params, lm.OptimizerOptions{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8,
		WeightDecay: o.WeightDecay, MaxNorm: 1})
	defer t.Free()
	var kept [][]float32
	run := func() error {
		measure := func(step int) error {
			loss, accuracy, err := m.Evaluate(s, validation, evalTokens)
			if err != nil {
				return err
			}
			p := Point{step, loss, accuracy}
			curve = append(curve, p)
			if len(curve) == 1 || loss < best.Loss {
				best = p
				kept = kept[:0]
				for _, x := range params {
					kept = append(kept, slices.Clone(x.Host()))
				}
			}
			if o.Progress != nil {
				o.Progress(p)
			}
			return nil
		}
		if err := measure(0); err != nil {
			return err
		}
		var order []int
		epoch := 0
		for step := range o.Steps {
			if err := ctx.Err(); err != nil {
				return err
			}
			batch := make([]lm.Row, 0, o.Batch)
			for len(batch) < o.Batch {
				if len(order) == 0 {
					order = rng.New(o.Seed, "downstream", "epoch", strconv.Itoa(epoch)).Perm(len(rows))
					epoch++
				}
				batch = append(batch, rows[order[0]])
				order = order[1:]
			}
			if _, _, err := t.Step(s, m, nil, batch, schedule.At(step)); err != nil {
				return fmt.Errorf("downstream: step %d: %w", step+1, err)
			}
			if (step+1)%o.EvalEvery == 0 || step+1 == o.Steps {
				if err := measure(step + 1); err != nil {
					return err
				}
			}
		}
		for i, x := range params {
			x.Store(kept[i])
		}
		return nil
	}
	return best, curve, run()
}
