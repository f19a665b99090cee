package local

import (
	"context"
	"fmt"

	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/scoring/update"
)

// Learners are train clients who train a model, as in federated averaging, with the models that they are simulated
// with, each by a [Learner]. They are private data. Package fedsim clips each client's change of the weights, adds it up
// and adds noise. Learners implement fedsim.Learner.
type Learners struct {
	ctx     context.Context // of the process: training ends between two steps when it does
	rows    [][]lm.Row      // of each client
	workers []*Learner
	idle    chan int // workers
}

// NewLearners takes the clients' texts as rows and opens what is trained for each of the clients that are trained at once: one
// a thread, each on one thread, so that a client's update does not depend on how many there are. Training ends between
// two steps when ctx ends. Close frees what was opened.
func NewLearners(ctx context.Context, rows [][]lm.Row, open func() (*lora.Part, error)) (*Learners, error) {
	c := &Learners{ctx: ctx, rows: rows}
	n := max(1, min(tensor.Threads(), len(rows)))
	c.idle = make(chan int, n)
	for i := range n {
		p, err := open()
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("local: %w", err)
		}
		l, err := NewLearner(p)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.workers = append(c.workers, l)
		c.idle <- i
	}
	return c, nil
}

// Close frees what the clients trained. nil has none.
func (c *Learners) Close() {
	if c == nil {
		return
	}
	for _, w := range c.workers {
		w.Free()
	}
	c.workers = nil
}

// N implements fedsim.Learner.
func (c *Learners) N() int { return len(c.rows) }

// Workers implements fedsim.Learner.
func (c *Learners) Workers() int { return len(c.workers) }

// Each implements fedsim.Learner.
func (c *Learners) Each(q update.Question, which []int, use func(worker, client int, change []float64) error) error {
	if len(which) == 0 {
		return nil
	}
	return tensor.Parallel(len(which), func(at int, s *tensor.Scope) error {
		w := <-c.idle
		defer func() { c.idle <- w }()
		i := which[at]
		change, err := c.workers[w].train(c.ctx, s, q, c.rows[i])
		if err != nil {
			return fmt.Errorf("local: a client: %w", err)
		}
		return use(w, i, change)
	})
}
