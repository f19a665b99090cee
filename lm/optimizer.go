package lm

import (
	"fmt"
	"math"
	"strconv"
	"sync"

	"popri/internal/rng"
	"popri/tensor"
)

// OptimizerOptions are the settings of AdamW. None has a default.
type OptimizerOptions struct {
	Beta1, Beta2 float64 // decay of the first and second moment by update, from 0 up to 1
	Epsilon      float64 // added to the root of the second moment, against division by 0
	WeightDecay  float64 // decoupled: each update reduces a weight by learning rate · WeightDecay of itself; 0 for none
	MaxNorm      float64 // gradients are clipped to this global L2 norm; 0 does not clip
	// Dropout is the share of activations that Step and StepParts set to zero, where GPT-2 does; 0 for none. The masks
	// follow from Seed and the number of the update.
	Dropout float64
	Seed    uint64
}

// Optimizer updates parameters by AdamW on the mean next-token loss (negative log-likelihood, nats), with the arithmetic
// of torch.optim.AdamW.
type Optimizer struct {
	Params  []tensor.Tensor // float32 leaves, e.g. from [Model.Trainable]
	Adam    *tensor.AdamW
	MaxNorm float64
	dropout float64
	seed    uint64

	device *deviceAdam // with a GPU ([tensor.OnDevice]); Adam's moments are then those of the last [Optimizer.State]
}

// NewOptimizer makes an optimizer for params. The caller frees it.
func NewOptimizer(params []tensor.Tensor, o OptimizerOptions) *Optimizer {
	sizes := make([]int, len(params))
	for i, p := range params {
		sizes[i] = int(p.NumElements())
	}
	adam := tensor.NewAdamW(o.Beta1, o.Beta2, o.Epsilon, o.WeightDecay, sizes)
	t := &Optimizer{Params: params, Adam: adam, MaxNorm: o.MaxNorm, dropout: o.Dropout, seed: o.Seed}
	if tensor.OnDevice() {
		t.device = newDeviceAdam(params)
	}
	return t
}

// Free releases what the optimizer holds on a GPU.
func (t *Optimizer) Free() {
	if t.device != nil {
		t.device.free()
		t.device = nil
	}
}

// Trainable marks all weights of the model as parameters and returns them in the order of [Model.Names].
func (m *Model) Trainable() ([]tensor.Tensor, error) {
	m.unpack() // the copies would not follow the training
	var params []tensor.Tensor
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, name := range m.Names() {
			p := m.params[name]
			if p.DType() != tensor.Float32 {
				return fmt.Errorf("lm: %s has the type %v, training needs float32 weights", name, p.DType())
			}
			s.RequireGrad(p, true)
			params = append(params, p)
		}
		return nil
	})
	return params, err
}

// Apply clips the gradients, applies them at learning rate lr and returns their norm before the clip. If the norm is not
// finite, Apply changes nothing and returns an error. The update is computed where the parameters are.
func (t *Optimizer) Apply(grads []tensor.Tensor, lr float64) (norm float64, err error) {
	if t.device != nil {
		return t.device.apply(t, grads, lr)
	}
	p, g := make([][]float32, len(grads)), make([][]float32, len(grads))
	for i := range grads {
		p[i], g[i] = t.Params[i].Host(), grads[i].Host()
	}
	norm = tensor.GlobalNorm(g)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, fmt.Errorf("lm: the gradient's norm is %g", norm)
	}
	if err := t.Adam.Update(p, g, lr, tensor.ClipScale(norm, t.MaxNorm)); err != nil {
		return norm, err
	}
	for i := range grads {
		t.Params[i].Store(p[i])
	}
	return norm, nil
}

// Step does one update on rows and returns the mean loss before it and the gradient norm before clipping.
func (t *Optimizer) Step(s *tensor.Scope, m *Model, adapter Adapter, rows []Row,
	lr float64) (loss, norm float64, err error) {
	leaves, free, err := m.cast(t.Params)
	if err != nil {
		return 0, 0, err
	}
	defer free()
	s.Do(func() {
		var grads []tensor.Tensor
		loss, grads = t.gradients(s, m, adapter, rows, leaves, m.counted(rows), 0)
		for i := range grads {
			grads[i] = s.To(grads[i], tensor.Float32)
		}
		norm, err = t.Apply(grads, lr)
	})
	return loss, norm, finite(loss, err)
}

// StepParts is [Optimizer.Step] with the rows divided into parts, at most one a row, which are computed in parallel, one a
// thread. Another number of parts gives another rounding; the same number gives the same bits on any number of threads.
func (t *Optimizer) StepParts(m *Model, adapter Adapter, rows []Row, parts int,
	lr float64) (loss, norm float64, err error) {
	parts = max(1, min(parts, len(rows)))
	total := m.counted(rows)
	losses := make([]float64, parts)
	leaves, free, err := m.cast(t.Params)
	if err != nil {
		return 0, 0, err
	}
	defer free()
	norm, err = t.StepPasses(parts, lr, func(i int, s *tensor.Scope) (grads []tensor.Tensor, err error) {
		losses[i], grads = t.gradients(s, m, adapter, rows[i*len(rows)/parts:(i+1)*len(rows)/parts], leaves, total, i)
		return grads, nil
	})
	for _, l := range losses {
		loss += l
	}
	return loss, norm, finite(loss, err)
}

// StepPasses does one update on the sum of the gradients that n passes return, and returns the gradient norm before
// clipping. The passes are computed in parallel, one a thread, and added in their order, so that the bits do not depend on
// the threads. An error of a pass, or a norm that is not finite, changes nothing.
func (t *Optimizer) StepPasses(n int, lr float64,
	pass func(i int, s *tensor.Scope) ([]tensor.Tensor, error)) (norm float64, err error) {
	sum := gradientSum{parts: make([][]tensor.Tensor, n)}
	defer sum.free()
	err = tensor.Parallel(n, func(i int, s *tensor.Scope) error {
		part, err := pass(i, s)
		sum.add(s, i, part)
		return err
	})
	if err != nil {
		return 0, err
	}
	err = tensor.Run(func(s *tensor.Scope) error {
		norm, err = t.Apply(sum.parts[0], lr)
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

func finite(loss float64, err error) error {
	if err == nil && (math.IsNaN(loss) || math.IsInf(loss, 0)) {
		return fmt.Errorf("lm: the loss is %g", loss)
	}
	return err
}

// gradients returns the share of rows in the mean loss over total tokens, and the gradients of the leaves.
func (t *Optimizer) gradients(s *tensor.Scope, m *Model, adapter Adapter, rows []Row, leaves []tensor.Tensor,
	total, part int) (loss float64, grads []tensor.Tensor) {
	drop := dropout{share: t.dropout}
	if drop.share > 0 {
		drop.seed = rng.Seed(t.seed, "dropout", strconv.Itoa(t.Adam.Step), strconv.Itoa(part))
	}
	s.WithGrad(func() {
		sc := m.unscored(s, rows, adapter, drop)
		weights := make([]float32, len(sc.Row))
		for i := range weights {
			weights[i] = -1 / float32(total)
		}
		grads = contiguous(s, sc.Gradients(s, weights, leaves))
		for _, lp := range sc.LogProbs {
			loss -= float64(lp) / float64(total)
		}
	})
	return loss, grads
}

// Gradients are [Scored.Gradients] of the optimizer's parameters, as [Optimizer.StepPasses] takes them.
func (t *Optimizer) Gradients(s *tensor.Scope, sc *Scored, weights []float32) []tensor.Tensor {
	return contiguous(s, sc.Gradients(s, weights, t.Params))
}

func contiguous(s *tensor.Scope, list []tensor.Tensor) []tensor.Tensor {
	for i := range list {
		list[i] = s.Contiguous(list[i])
	}
	return list
}
