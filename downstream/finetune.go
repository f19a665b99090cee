package downstream

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"popri/internal/rng"
	"popri/lm"
	"popri/tensor"
	"popri/tokenizer"
)

// Point is one measurement during a fine-tuning.
type Point struct {
	Step     int     `json:"step"`
	Loss     float64 `json:"loss"`     // on the validation clients, nats a token
	Accuracy float64 `json:"accuracy"` // on the validation clients
}

// Encoder turns texts into rows of one of the [RowForms].
type Encoder struct {
	Tokenizer *tokenizer.Tokenizer
	Rows      string // Line: separator, text and a line's end, as the shipped models were trained; Document: begin, text, end
	Begin     int32  // of Document
	End       int32  // of Document, and the separator of Line
	Length    int    // tokens to which rows are cut
}

// Encode returns a row for each text.
func (e Encoder) Encode(texts []string) []lm.Row {
	first, last := e.Begin, e.ending()
	if e.Rows == Line {
		first = e.End
	}
	rows := make([]lm.Row, 0, len(texts))
	for _, t := range texts {
		ids := append([]int32{first}, e.Tokenizer.Encode(t)...)
		ids = append(ids, last...)
		rows = append(rows, lm.Row{Tokens: ids[:min(len(ids), e.Length)]})
	}
	return rows
}

// ending is what ends a row.
func (e Encoder) ending() []int32 {
	if e.Rows == Line {
		return e.Tokenizer.Encode("\n")
	}
	return []int32{e.End}
}

// Batches of evaluation hold this many padded tokens.
const evalTokens = 8192

// training is a fine-tuning under way.
type training struct {
	plan
	model     *lm.Model
	optimizer *lm.Optimizer
	params    []tensor.Tensor
	rows      []lm.Row
	step      int
	best      Point
	curve     []Point
	kept      [][]float32 // weights of the best measurement
	order     []int       // of the epoch
	epoch     int         // that order belongs to; -1 at first
}

// FineTune trains m, whose weights are float32, on rows in random order, epoch after epoch, and leaves the weights of
// the best measurement on the validation rows in it. A training with the same arguments that was ended goes on where the
// checkpoint's file says; "" keeps none. Of o.LearningRates, rate is used.
func FineTune(ctx context.Context, s *tensor.Scope, m *lm.Model, rows, validation []lm.Row, rate float64, o Options,
	checkpoint string) (best Point, curve []Point, err error) {
	if len(rows) == 0 || len(validation) == 0 {
		return best, nil, fmt.Errorf("downstream: %d texts to train on, %d to validate", len(rows), len(validation))
	}
	p, err := o.plan(len(rows), rate)
	if err != nil {
		return best, nil, err
	}
	m.Compute, m.Recompute = o.Compute, o.Recompute
	params, err := m.Trainable()
	if err != nil {
		return best, nil, err
	}
	t := &training{plan: p, model: m, params: params, rows: rows, epoch: -1,
		optimizer: lm.NewOptimizer(params, lm.OptimizerOptions{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8,
			WeightDecay: o.WeightDecay, MaxNorm: o.MaxNorm, Dropout: o.Dropout, Seed: o.Seed})}
	defer t.optimizer.Free()
	saved, err := t.resume(checkpoint)
	if err != nil {
		return best, nil, err
	}
	if err := t.run(ctx, s, validation, saved); err != nil {
		return best, nil, err
	}
	for i, x := range params {
		x.Store(t.kept[i])
	}
	saved.remove()
	return t.best, t.curve, nil
}

func (t *training) run(ctx context.Context, s *tensor.Scope, validation []lm.Row, saved *checkpoint) error {
	if len(t.curve) == 0 {
		if err := t.measure(s, validation); err != nil {
			return err
		}
	}
	for t.step < t.steps && !t.stopped() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := t.update(s, t.batch()); err != nil {
			return fmt.Errorf("downstream: step %d: %w", t.step+1, err)
		}
		t.step++
		if t.Stepped != nil {
			t.Stepped()
		}
		if t.step%t.every == 0 || t.step == t.steps {
			if err := t.measure(s, validation); err != nil {
				return err
			}
			if err := saved.write(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// stopped reports whether patience has run out.
func (t *training) stopped() bool {
	since := 0
	for _, p := range t.curve {
		if since++; p.Step == t.best.Step {
			since = 0
		}
	}
	return t.Patience > 0 && since >= t.Patience
}

// batch returns the rows of the next update. Each epoch has an order of its own.
func (t *training) batch() []lm.Row {
	from, n := t.step*t.Batch, t.Batch
	if t.Epochs > 0 {
		from = t.step/t.perEpoch*len(t.rows) + t.step%t.perEpoch*t.Batch
		n = min(n, len(t.rows)-from%len(t.rows))
	}
	batch := make([]lm.Row, n)
	for i := range batch {
		epoch, at := (from+i)/len(t.rows), (from+i)%len(t.rows)
		if epoch != t.epoch {
			t.order, t.epoch = rng.New(t.Seed, "downstream", "epoch", strconv.Itoa(epoch)).Perm(len(t.rows)), epoch
		}
		batch[i] = t.rows[t.order[at]]
	}
	return batch
}

// update returns the mean loss of the batch before it.
func (t *training) update(s *tensor.Scope, batch []lm.Row) (loss float64, err error) {
	rate := t.schedule.At(t.step)
	if t.Micro == 0 {
		loss, _, err = t.optimizer.Step(s, t.model, nil, batch, rate)
		return loss, err
	}
	// Rows of one length in a pass need little padding. The longest come first: shorter ones fit into the memory that they leave.
	slices.SortStableFunc(batch, func(a, b lm.Row) int { return len(b.Tokens) - len(a.Tokens) })
	loss, _, err = t.optimizer.StepParts(t.model, nil, batch, (len(batch)+t.Micro-1)/t.Micro, rate)
	return loss, err
}

func (t *training) measure(s *tensor.Scope, validation []lm.Row) error {
	loss, accuracy, err := t.model.Evaluate(s, validation, evalTokens)
	if err != nil {
		return err
	}
	p := Point{t.step, loss, accuracy}
	t.curve = append(t.curve, p)
	if len(t.curve) == 1 || t.better(p, t.best) {
		t.best = p
		if t.kept == nil {
			t.kept = make([][]float32, len(t.params))
		}
		for i, x := range t.params {
			t.kept[i] = append(t.kept[i][:0], x.Host()...)
		}
	}
	if t.Progress != nil {
		t.Progress(p)
	}
	return nil
}
