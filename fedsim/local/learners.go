package local

import (
	"context"
	"fmt"
	"strconv"

	"popri/internal/rng"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/scoring/update"
)

// Learners are train clients who train a model, as in federated averaging, with the models that they are simulated
// with. They are private data. Package fedsim clips each client's change of the weights, adds it up and adds noise.
//
//	for epoch 1…E, for each batch b of the client's rows in random order:   w ← w − rate · ∇ L(w; b)
//
// L is the mean next-token loss of the batch's counted tokens, as eval/downstream has it, without dropout and weight
// decay. Learners implement fedsim.Learner.
type Learners struct {
	ctx     context.Context // of the process: training ends between two clients when it does
	rows    [][]lm.Row      // of each client
	workers []*worker
	idle    chan *worker
}

// worker trains one client at a time.
type worker struct {
	number int
	part   *lora.Part
	params []tensor.Tensor
	change []float64
}

// NewLearners takes the clients' texts as rows and opens what is trained for each of the clients that are trained at once: one
// a thread, each on one thread, so that a client's update does not depend on how many there are. Training ends between
// two clients when ctx ends. Close frees what was opened.
func NewLearners(ctx context.Context, rows [][]lm.Row, open func() (*lora.Part, error)) (*Learners, error) {
	c := &Learners{ctx: ctx, rows: rows}
	n := max(1, min(tensor.Threads(), len(rows)))
	c.idle = make(chan *worker, n)
	for i := range n {
		p, err := open()
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("local: %w", err)
		}
		w := &worker{number: i, part: p, change: make([]float64, p.Len())}
		c.workers = append(c.workers, w)
		if w.params, err = p.Trainable(); err != nil {
			c.Close()
			return nil, fmt.Errorf("local: %w", err)
		}
		c.idle <- w
	}
	return c, nil
}

// Close frees what the clients trained. nil has none.
func (c *Learners) Close() {
	if c == nil {
		return
	}
	for _, w := range c.workers {
		w.part.Free()
	}
	c.workers = nil
}

// Clients implements fedsim.Learner.
func (c *Learners) Clients() int { return len(c.rows) }

// Workers implements fedsim.Learner.
func (c *Learners) Workers() int { return len(c.workers) }

// Each implements fedsim.Learner.
func (c *Learners) Each(q update.Question, which []int, use func(worker, client int, change []float64) error) error {
	if len(which) == 0 {
		return nil
	}
	return tensor.Parallel(len(which), func(at int, s *tensor.Scope) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		w := <-c.idle
		defer func() { c.idle <- w }()
		i := which[at]
		if err := w.train(s, q, i, c.rows[i]); err != nil {
			return fmt.Errorf("local: a client: %w", err)
		}
		return use(w.number, i, w.change)
	})
}

// train leaves the client's change of the weights in w.change.
func (w *worker) train(s *tensor.Scope, q update.Question, client int, rows []lm.Row) error {
	if err := w.part.Set(q.Weights); err != nil {
		return err
	}
	for epoch := range q.Epochs {
		order := rng.New(q.Seed, "local", strconv.Itoa(q.Round), strconv.Itoa(client),
			strconv.Itoa(epoch)).Perm(len(rows))
		if q.Rows > 0 {
			order = order[:min(q.Rows, len(order))]
		}
		for from := 0; from < len(order); from += q.Batch {
			var batch []lm.Row
			for _, i := range order[from:min(from+q.Batch, len(order))] {
				batch = append(batch, rows[i])
			}
			w.step(s, batch, q.Rate)
		}
	}
	at := 0
	for _, p := range w.params {
		for _, v := range p.Host() {
			w.change[at] = float64(v) - float64(q.Weights[at])
			at++
		}
	}
	return nil
}

// step is one step of gradient descent. A batch without a counted token changes nothing.
func (w *worker) step(s *tensor.Scope, batch []lm.Row, rate float64) {
	m := w.part.Model
	total := m.Counted(batch)
	if total == 0 {
		return
	}
	s.Do(func() {
		_, grads := m.LossGradients(s, batch, w.part.Passes(), w.params, total, lm.Dropout{})
		s.NoGrad(func() {
			for i, p := range w.params {
				if grads[i].Defined() { // positions beyond the rows have none
					s.Add_(p, s.MulScalar(grads[i], -rate))
				}
			}
		})
	})
}
