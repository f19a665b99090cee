package trainer

import (
	"fmt"

	"popri/internal/numeric"
	"popri/model/tensor"
)

// AdamW are the settings of the optimizer (Loshchilov and Hutter 2019). None has a default.
type AdamW struct {
	Beta1, Beta2 float64 // decay of the first and second moment by update, from 0 up to 1
	Epsilon      float64 // added to the root of the second moment, against division by 0
	WeightDecay  float64 // decoupled: each update reduces a weight by learning rate · WeightDecay of itself; 0 for none
	MaxNorm      float64 // gradients are clipped to this global L2 norm; 0 does not clip
}

// UsualAdamW has the constants of AdamW's paper, which fine-tuning seldom changes.
func UsualAdamW(weightDecay, maxNorm float64) AdamW {
	return AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, WeightDecay: weightDecay, MaxNorm: maxNorm}
}

// Optimizer updates parameters with the arithmetic of torch.optim.AdamW.
type Optimizer struct {
	Params []tensor.Tensor // float32 leaves, as [lm.Model.Trainable] and [lora.Adapter.Trainable] return them
	Done   Counters        // over all trainings of the parameters

	adam    *tensor.AdamW
	maxNorm float64
	device  *deviceAdam // with a GPU ([tensor.OnDevice]); adam's moments are then from the last [Optimizer.State]
}

// NewOptimizer makes an optimizer for params. The caller frees it.
func NewOptimizer(params []tensor.Tensor, a AdamW) *Optimizer {
	sizes := numeric.Map(params, func(p tensor.Tensor) int { return int(p.NumElements()) })
	o := &Optimizer{Params: params, adam: tensor.NewAdamW(a.Beta1, a.Beta2, a.Epsilon, a.WeightDecay, sizes),
		maxNorm: a.MaxNorm}
	if tensor.OnDevice() {
		o.device = newDeviceAdam(params)
	}
	return o
}

// Free releases what the optimizer holds on a GPU.
func (o *Optimizer) Free() {
	if o.device != nil {
		o.device.free()
		o.device = nil
	}
}

// apply clips the gradients, applies them at learning rate lr and returns their norm before the clip. If the norm is
// not finite, apply changes nothing and returns an error. The update is computed where the parameters are.
func (o *Optimizer) apply(grads []tensor.Tensor, lr float64) (norm float64, err error) {
	if o.device != nil {
		return o.device.apply(o, grads, lr)
	}
	p, g := make([][]float32, len(grads)), make([][]float32, len(grads))
	for i := range grads {
		p[i], g[i] = o.Params[i].Host(), grads[i].Host()
	}
	if norm = tensor.GlobalNorm(g); !numeric.Finite(norm) {
		return norm, notFinite(norm)
	}
	if err := o.adam.Update(p, g, lr, tensor.ClipScale(norm, o.maxNorm)); err != nil {
		return norm, err
	}
	for i := range grads {
		o.Params[i].Store(p[i])
	}
	return norm, nil
}

func notFinite(norm float64) error { return fmt.Errorf("the gradient's norm is %g", norm) }
