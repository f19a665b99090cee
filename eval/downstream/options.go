package downstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/trainer"
)

// Options are the settings of a fine-tuning.
type Options struct {
	Steps  int // updates; unused with Epochs
	Epochs int // passes over the texts; 0 counts updates instead, whose batches go over the ends of epochs
	Batch  int // texts of an update; with Epochs, the last update of an epoch may have fewer
	// Micro is the number of texts of a forward and backward pass; a batch's passes are computed side by side and its
	// models one after another. 0 computes a batch in one pass and trains models side by side.
	Micro     int
	Recompute bool   // keep only the blocks' inputs in a training pass ([lm.Model.Recompute])
	Length    int    // tokens to which texts are cut
	Rows      string // form of a row, of rowForms
	// LearningRates are the peaks to try; the one with the best measurement on the validation clients is used.
	LearningRates []float64
	Schedule      string  // of trainer.Schedules
	Warmup        float64 // share of the updates
	WeightDecay   float64 // AdamW's
	MaxNorm       float64 // of the gradient; 0 does not clip
	Dropout       float64 // fraction of activations; 0 for none
	// EvalEvery is the number of updates between measurements on the validation clients; 0, with Epochs, measures after
	// each epoch.
	EvalEvery int
	Best      string // figure that chooses among the measurements: loss or accuracy
	Measured  int    // validation texts of a measurement, drawn by the seed; 0 takes all
	Tested    int    // test texts, drawn by the seed; 0 takes all
	Patience  int    // measurements without a better one that end the training; 0 trains to the end
	// Trainings is the number of trainings on each source, which differ in their seed; the first has Seed. 0 is one.
	Trainings int
	Seed      uint64
	Compute   tensor.DType
	// LoRA are the adapters that are trained in place of all weights; nil for none.
	LoRA *lora.Config
	// Worked, if not nil, is called after every update and every batch of a measurement with their work, of which the
	// forward pass of a token is 1.
	Worked func(work int)
}

// backward is the work of an update for a token, whose backward pass computes twice what the forward pass does.
const backward = 3

// Forms of a row, see [Encoder].
const (
	Line     = "line"
	Document = "document"
)

// rowForms, and the figures that choose the best measurement.
var (
	rowForms = []string{Line, Document}
	figures  = []string{"loss", "accuracy"}
)

// plan is the options of one training, for a number of texts.
type plan struct {
	Options
	perEpoch int // updates
	steps    int
	every    int
	schedule trainer.Schedule
}

func (o Options) plan(rows int, rate float64) (plan, error) {
	p := plan{Options: o, steps: o.Steps, every: o.EvalEvery}
	if o.Batch < 1 || o.Micro < 0 || o.Epochs < 0 {
		return p, fmt.Errorf("downstream: batches of %d texts, passes of %d, %d epochs", o.Batch, o.Micro, o.Epochs)
	}
	p.perEpoch = (rows + o.Batch - 1) / o.Batch
	if o.Epochs > 0 {
		p.steps = o.Epochs * p.perEpoch
		p.every = cmp.Or(p.every, p.perEpoch)
	}
	if p.steps < 1 || p.every < 1 {
		return p, errors.New("downstream: steps and eval_every must be positive")
	}
	if !slices.Contains(figures, o.Best) || !slices.Contains(rowForms, o.Rows) {
		return p, fmt.Errorf("downstream: best %q, rows %q", o.Best, o.Rows)
	}
	p.schedule = trainer.Schedule{Kind: o.Schedule, Peak: rate, Warmup: min(int(math.Round(o.Warmup*float64(p.steps))), p.steps-1),
		Total: p.steps}
	return p, p.schedule.Check()
}

// work is the work of a training on rows, which is measured on at most the given tokens.
func (o Options) work(rows []lm.Row, measured int) int {
	p, err := o.plan(len(rows), 0)
	if err != nil || len(rows) == 0 {
		return 0 // the training will tell
	}
	updates := backward * p.steps * o.Batch * lm.Tokens(rows) / len(rows)
	return len(o.LearningRates) * (updates + measured*(1+(p.steps+p.every-1)/p.every))
}

// measured are the rows of a measurement.
func (o Options) measured(validation []lm.Row) []lm.Row {
	return numeric.Pick(validation, drawn(len(validation), o.Measured, o.Seed, "measured"))
}

// drawn are most of n numbers, drawn by the seed, in ascending order; all where most is 0.
func drawn(n, most int, seed uint64, stage string) []int {
	most = cmp.Or(most, n)
	list := rng.New(seed, "downstream", stage).Perm(n)[:min(n, most)]
	slices.Sort(list)
	return list
}

// during reports the work of a measurement, which ends with ctx.
func (o Options) during(ctx context.Context) func(work int) error {
	return func(work int) error {
		o.worked(work)
		return ctx.Err()
	}
}

func (o Options) worked(work int) {
	if o.Worked != nil {
		o.Worked(work)
	}
}

// better reports whether measurement a is better than b.
func (o Options) better(a, b Point) bool {
	if math.IsNaN(a.Loss) {
		return false
	}
	if o.Best == "accuracy" {
		return a.Accuracy > b.Accuracy || a.Accuracy == b.Accuracy && a.Loss < b.Loss
	}
	return a.Loss < b.Loss
}
