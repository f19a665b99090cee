package local

import (
	"context"
	"fmt"
	"strconv"

	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/scoring/update"
)

// Learner trains a model at one client, then at the next.
//
//	for epoch 1…E, for each batch b of the client's rows in random order:   w ← w − rate · ∇ L(w; b)
//
// L is the mean next-token loss of the batch's counted tokens, as eval/downstream has it, without dropout and weight
// decay. The order follows from the question's seed and the number of rows alone, so that a client elsewhere, who knows
// no more, goes through its rows as it would in a simulation.
type Learner struct {
	part   *lora.Part
	params []tensor.Tensor
	change []float64
}

// NewLearner takes over what is trained, also if it fails.
func NewLearner(p *lora.Part) (*Learner, error) {
	params, err := p.Trainable()
	if err != nil {
		p.Free()
		return nil, fmt.Errorf("local: %w", err)
	}
	return &Learner{p, params, make([]float64, p.Len())}, nil
}

// Len is the number of values of a change.
func (l *Learner) Len() int { return len(l.change) }

// Free frees what is trained. nil has nothing.
func (l *Learner) Free() {
	if l != nil {
		l.part.Free()
	}
}

// Change is the change of the weights by a client's rows, unclipped, on one thread. The next call overwrites it. A panic is
// an error: rows must not end the program of a client, who would be known by that.
func (l *Learner) Change(ctx context.Context, q update.Question, rows []lm.Row) (change []float64, err error) {
	err = tensor.Parallel(1, func(_ int, s *tensor.Scope) (err error) {
		defer func() {
			if failed := recover(); failed != nil {
				err = fmt.Errorf("local: %v", failed)
			}
		}()
		change, err = l.train(ctx, s, q, rows)
		return err
	})
	return change, err
}

func (l *Learner) train(ctx context.Context, s *tensor.Scope, q update.Question, rows []lm.Row) ([]float64, error) {
	if err := l.part.Set(q.Weights); err != nil {
		return nil, err
	}
	for epoch := range q.Epochs {
		order := rng.New(q.Seed, "local", strconv.Itoa(q.Round), strconv.Itoa(epoch)).Perm(len(rows))
		if q.Rows > 0 {
			order = order[:min(q.Rows, len(order))]
		}
		for from := 0; from < len(order); from += q.Batch {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			l.step(s, numeric.Pick(rows, order[from:min(from+q.Batch, len(order))]), q.Rate)
		}
	}
	at := 0
	for _, p := range l.params {
		for _, v := range p.Host() {
			l.change[at] = float64(v) - float64(q.Weights[at])
			at++
		}
	}
	return l.change, nil
}

// step is one step of gradient descent. A batch without a counted token changes nothing.
func (l *Learner) step(s *tensor.Scope, batch []lm.Row, rate float64) {
	m := l.part.Model
	total := m.Counted(batch)
	if total == 0 {
		return
	}
	s.Do(func() {
		_, grads := m.LossGradients(s, batch, l.part.Passes(), l.params, total, lm.Dropout{})
		s.NoGrad(func() {
			for i, p := range l.params {
				if grads[i].Defined() { // positions beyond the rows have none
					s.Add_(p, s.MulScalar(grads[i], -rate))
				}
			}
		})
	})
}
