package trainer

import (
	"context"
	"errors"
	"sync"

	"popri/internal/numeric"
	"popri/model/tensor"
)

// Objective is what a training minimises. It holds the examples, which the loop knows by their indices.
type Objective interface {
	// Batch prepares an update on the mean loss of the examples with these indices, which it may reorder.
	Batch(ctx context.Context, indices []int) (Batch, error)
}

// Batch is an update on some examples.
type Batch struct {
	// Passes are the forward and backward passes whose gradients add up to the batch's: gradient accumulation, if there
	// are several. They are computed side by side and added in their order. None leaves the update out.
	Passes []Pass
	Tokens int64 // that the passes read
	// Alone is the pass of one example alone, with its weight in the batch. It finds the examples that are to blame for
	// a gradient that is not finite. nil blames the whole batch.
	Alone func(example int) Pass
	// Examples is the number of examples, and What is what one of them is called ("pair").
	Examples int
	What     string
	// Done receives the update after it was made. nil for nothing.
	Done func(Update)
	// Free releases what the passes have in common. nil for nothing.
	Free func()
}

// Pass computes the gradients of a part of a batch's loss with respect to the optimizer's parameters. Examples whose
// loss is not finite give a [*NonFinite] with their indices in the batch.
type Pass func(s *tensor.Scope) ([]tensor.Tensor, error)

// Update describes an update that was made.
type Update struct {
	Step         int     // from 1, over all trainings of the parameters
	Number       int     // from 1, in this training; updates that were left out count
	Epoch        float64 // how often the training has gone through its examples
	LearningRate float64
	GradNorm     float64 // before clipping
	Tokens       int64   // read so far, over all trainings of the parameters
}

// Update does one update at learning rate lr. A loss or gradient that is not finite changes nothing and is a
// [*NonFinite], which names the examples.
func (o *Optimizer) Update(b Batch, lr float64) (Update, error) {
	return o.update(b, Update{LearningRate: lr})
}

func (o *Optimizer) update(b Batch, u Update) (Update, error) {
	if b.Free != nil {
		defer b.Free()
	}
	u.Step, u.Tokens = o.Done.Steps+1, o.Done.Tokens+b.Tokens
	var err error
	if u.GradNorm, err = o.step(b.Passes, u.LearningRate); err != nil {
		if !numeric.Finite(u.GradNorm) {
			err = b.blame(u.GradNorm)
		}
		return u, err
	}
	o.Done = Counters{Steps: u.Step, Position: o.Done.Position + 1, Tokens: u.Tokens}
	if b.Done != nil {
		b.Done(u)
	}
	return u, nil
}

// step updates the parameters by the sum of the passes' gradients and returns its norm before clipping. The passes are
// computed in parallel, one a thread, and added in their order, so that the bits do not depend on the threads. An error
// of a pass, or a norm that is not finite, changes nothing.
func (o *Optimizer) step(passes []Pass, lr float64) (norm float64, err error) {
	if len(passes) == 0 {
		return 0, errors.New("a batch without a pass")
	}
	sum := gradientSum{parts: make([][]tensor.Tensor, len(passes))}
	defer sum.free()
	err = tensor.Parallel(len(passes), func(i int, s *tensor.Scope) error {
		part, err := passes[i](s)
		sum.add(s, i, part)
		return err
	})
	if err != nil {
		return 0, err
	}
	err = tensor.Run(func(s *tensor.Scope) error {
		defer tensor.Training.Enter()()
		norm, err = o.apply(sum.parts[0], lr)
		return err
	})
	return norm, err
}

// gradientSum adds the gradients of passes up in the order of their numbers. A part is freed once it is added, so that
// there are hardly more at a time than there are threads.
type gradientSum struct {
	sync.Mutex
	parts [][]tensor.Tensor // the first one holds the sum of those before next
	next  int
}

// add keeps the gradients of pass i and adds what can be added.
func (g *gradientSum) add(s *tensor.Scope, i int, part []tensor.Tensor) {
	g.Lock()
	defer g.Unlock()
	defer tensor.Training.Enter()()
	for _, x := range part {
		if i == 0 {
			x = s.To(x, tensor.Float32)
		}
		g.parts[i] = append(g.parts[i], s.Keep(x))
	}
	for ; g.next < len(g.parts) && g.parts[g.next] != nil; g.next++ {
		if g.next == 0 {
			continue
		}
		for k, x := range g.parts[g.next] {
			s.Add_(g.parts[0][k], x)
			x.Free()
		}
		g.parts[g.next] = g.parts[g.next][:0]
	}
}

func (g *gradientSum) free() {
	for _, part := range g.parts {
		for _, x := range part {
			x.Free()
		}
	}
}
