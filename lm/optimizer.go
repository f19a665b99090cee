package lm

import (
	"fmt"
	"math"

	"popri/tensor"
)

// OptimizerOptions are the settings of AdamW. None has a default.
type OptimizerOptions struct {
	Beta1, Beta2 float64 // decay of the first and second moment by update, from 0 up to 1
	Epsilon      float64 // added to the root of the second moment, against division by 0
	WeightDecay  float64 // decoupled: each update reduces a weight by learning rate · WeightDecay of itself; 0 for none
	MaxNorm      float64 // gradients are clipped to this global L2 norm; 0 does not clip
}

// Optimizer updates parameters by AdamW on the mean next-token loss (negative log-likelihood, nats), with the arithmetic
// of torch.optim.AdamW.
type Optimizer struct {
	Params  []tensor.Tensor // float32 leaves, e.g. from [Model.Trainable]
	Adam    *tensor.AdamW
	MaxNorm float64

	device *deviceAdam // with a GPU ([tensor.OnDevice]); Adam's moments are then those of the last [Optimizer.State]
}

// NewOptimizer makes an optimizer for params. The caller frees it.
func NewOptimizer(params []tensor.Tensor, o OptimizerOptions) *Optimizer {
	sizes := make([]int, len(params))
	for i, p := range params {
		sizes[i] = int(p.NumElements())
	}
	adam := tensor.NewAdamW(o.Beta1, o.Beta2, o.Epsilon, o.WeightDecay, sizes)
	t := &Optimizer{Params: params, Adam: adam, MaxNorm: o.MaxNorm}
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
	s.Do(func() {
		var grads []tensor.Tensor
		loss, grads = t.gradients(s, m, adapter, rows, counted(rows))
		norm, err = t.Apply(grads, lr)
	})
	return loss, norm, finite(loss, err)
}

// StepParts is [Optimizer.Step] with the rows divided into parts, which are computed in parallel, one a thread. Another
// number of parts gives another rounding; the same number gives the same bits on any number of threads.
func (t *Optimizer) StepParts(m *Model, adapter Adapter, rows []Row, parts int,
	lr float64) (loss, norm float64, err error) {
	total := counted(rows)
	losses := make([]float64, parts)
	norm, err = t.StepPasses(parts, lr, func(i int, s *tensor.Scope) (grads []tensor.Tensor, err error) {
		losses[i], grads = t.gradients(s, m, adapter, rows[i*len(rows)/parts:(i+1)*len(rows)/parts], total)
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
	grads := make([][]tensor.Tensor, n)
	defer func() {
		for _, part := range grads {
			for _, g := range part {
				g.Free()
			}
		}
	}()
	err = tensor.Parallel(n, func(i int, s *tensor.Scope) error {
		part, err := pass(i, s)
		for _, g := range part {
			grads[i] = append(grads[i], s.Keep(g))
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	err = tensor.Run(func(s *tensor.Scope) error {
		for _, part := range grads[1:] {
			for k := range part {
				s.Add_(grads[0][k], part[k])
			}
		}
		norm, err = t.Apply(grads[0], lr)
		return err
	})
	return norm, err
}

func finite(loss float64, err error) error {
	if err == nil && (math.IsNaN(loss) || math.IsInf(loss, 0)) {
		return fmt.Errorf("lm: the loss is %g", loss)
	}
	return err
}

// gradients returns the share of rows in the mean loss over total tokens, and its gradients.
func (t *Optimizer) gradients(s *tensor.Scope, m *Model, adapter Adapter, rows []Row,
	total int) (loss float64, grads []tensor.Tensor) {
	s.WithGrad(func() {
		sc := m.Score(s, rows, adapter, false)
		weights := make([]float32, len(sc.LogProbs))
		for i, lp := range sc.LogProbs {
			weights[i] = -1 / float32(total)
			loss -= float64(lp) / float64(total)
		}
		grads = t.Gradients(s, sc, weights)
	})
	return loss, grads
}

// Gradients are [Scored.Gradients] of the optimizer's parameters, as [Optimizer.StepPasses] takes them.
func (t *Optimizer) Gradients(s *tensor.Scope, sc *Scored, weights []float32) []tensor.Tensor {
	grads := sc.Gradients(s, weights, t.Params)
	for i := range grads {
		grads[i] = s.Contiguous(grads[i])
	}
	return grads
}
