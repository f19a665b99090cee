package downstream

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"popri/model/lm"
	"popri/model/tensor"
	"popri/testkit/golden"
	"popri/testkit/testmodel"
	"popri/trainer"
)

// TestGoldenFineTuning follows a fine-tuning of transformers' GPT-2 in batches of its order.
func TestGoldenFineTuning(t *testing.T) {
	root := golden.Folder(t, "downstream")
	var trace struct {
		Model        string
		Length       int
		LearningRate float64 `json:"learning_rate"`
		Batch        int
		Rows, Held   [][]int32
		Order        [][]int
		Losses       []float64
		Measurements []struct {
			Loss   float64
			Tokens int
			Top    [3]int
		}
	}
	golden.ReadJSON(t, filepath.Join(root, "trace.json"), &trace)
	row := func(list [][]int32) (rows []lm.Row) {
		for _, ids := range list {
			rows = append(rows, lm.Row{Tokens: ids})
		}
		return rows
	}
	rows, held := row(trace.Rows), row(trace.Held)
	for _, micro := range []int{0, 3} {
		m := testmodel.Load(t, filepath.Join(root, trace.Model), lm.Options{})
		defer m.Free()
		params, err := m.Trainable()
		if err != nil {
			t.Fatal(err)
		}
		o := options(1)
		o.Epochs, o.EvalEvery, o.Batch, o.Micro = len(trace.Order), 0, trace.Batch, micro
		o.Schedule, o.Warmup, o.MaxNorm = "constant", 0, 0
		p, err := o.plan(len(rows), trace.LearningRate)
		if err != nil {
			t.Fatal(err)
		}
		o.WeightDecay = 0
		optimizer := trainer.NewOptimizer(params, trainer.UsualAdamW(p.WeightDecay, p.MaxNorm))
		defer optimizer.Free()
		objective, batches := p.objective(m, nil, optimizer, rows), p.batches(len(rows))
		batches.Order = func(epoch int) []int { return trace.Order[epoch] }
		measure := func(s *tensor.Scope, at int) {
			list, err := m.EvaluateRows(s, held, nil, 64, nil)
			if err != nil {
				t.Fatal(err)
			}
			var sum lm.RowScore
			for _, r := range list {
				sum.Loss, sum.Tokens, sum.Correct = sum.Loss+r.Loss, sum.Tokens+r.Tokens, sum.Correct+r.Correct
				sum.Top3, sum.Top5 = sum.Top3+r.Top3, sum.Top5+r.Top5
			}
			want := trace.Measurements[at]
			if sum.Tokens != want.Tokens || [3]int{sum.Correct, sum.Top3, sum.Top5} != want.Top ||
				math.Abs(sum.Loss/float64(sum.Tokens)-want.Loss) > 1e-4 {
				t.Errorf("passes of %d, after %d epochs: %+v, want %+v", micro, at, sum, want)
			}
		}
		done := 0
		objective.Done = func(_ trainer.Update, loss float64) {
			if want := trace.Losses[done]; math.Abs(loss-want) > 1e-4 {
				t.Errorf("passes of %d: the loss of update %d is %g, want %g", micro, done+1, loss, want)
			}
			done++
		}
		err = tensor.Run(func(s *tensor.Scope) error {
			measured := 0
			loop := trainer.Loop{Optimizer: optimizer, Objective: objective, Batches: batches, Schedule: p.schedule,
				Updates: p.steps, MeasureFirst: true, MeasureEvery: p.every,
				Measure: func(context.Context, int) (bool, error) {
					measure(s, measured)
					measured++
					return false, nil
				}}
			return loop.Run(t.Context())
		})
		if err != nil || done != len(trace.Losses) {
			t.Fatal(done, err)
		}
	}
	golden.Checked(t, "downstream/trace", len(trace.Losses)+len(trace.Measurements))
}
