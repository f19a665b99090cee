package trainer

import (
	"math"
	"slices"

	"popri/internal/numeric"
	"popri/model/tensor"
)

// deviceAdam is AdamW where the parameters are, for parameters on a GPU: all of them one after the other, so that an
// update is a few operations on one long vector. The arithmetic is as in [tensor.AdamW], to rounding.
type deviceAdam struct {
	m, v tensor.Tensor // the moments, float32 [parameters]
}

func newDeviceAdam(params []tensor.Tensor) *deviceAdam {
	d, n := &deviceAdam{}, numeric.Sum(params, tensor.Tensor.NumElements)
	// Making zeros fails only where memory ends, which the first update then says.
	_ = tensor.Run(func(s *tensor.Scope) error {
		d.m, d.v = s.Keep(s.Zeros(tensor.Float32, n)), s.Keep(s.Zeros(tensor.Float32, n))
		return nil
	})
	return d
}

func (d *deviceAdam) free() {
	d.m.Free()
	d.v.Free()
}

// joinedElements is the tensors' elements one after the other.
func joinedElements(s *tensor.Scope, list []tensor.Tensor) tensor.Tensor {
	return s.Cat(0, numeric.Map(list, func(t tensor.Tensor) tensor.Tensor { return s.Reshape(t, -1) })...)
}

// apply is [Optimizer.apply]. The norm and the verdict on it are the only things that leave the device.
func (d *deviceAdam) apply(o *Optimizer, grads []tensor.Tensor, lr float64) (norm float64, err error) {
	a := o.adam
	err = tensor.Run(func(s *tensor.Scope) error {
		if s.CanUpdate() {
			norm, err = d.update(s, o, grads, lr)
			return err
		}
		g := joinedElements(s, grads)
		norm = math.Sqrt(float64(s.Float32s(s.Sum(s.Mul(g, g)))[0]))
		if !numeric.Finite(norm) {
			return notFinite(norm)
		}
		a.Step++
		c1, c2 := 1-math.Pow(a.Beta1, float64(a.Step)), 1-math.Pow(a.Beta2, float64(a.Step))
		g = s.MulScalar(g, tensor.ClipScale(norm, o.maxNorm))
		s.Copy_(d.m, s.Add(s.MulScalar(d.m, a.Beta1), s.MulScalar(g, 1-a.Beta1)))
		s.Copy_(d.v, s.Add(s.MulScalar(d.v, a.Beta2), s.MulScalar(s.Mul(g, g), 1-a.Beta2)))
		root := s.AddScalar(s.MulScalar(s.Sqrt(d.v), 1/math.Sqrt(c2)), a.Eps)
		p := s.Sub(s.MulScalar(joinedElements(s, o.Params), 1-lr*a.WeightDecay), s.MulScalar(s.Div(d.m, root), lr/c1))
		at := int64(0)
		for _, param := range o.Params {
			n := param.NumElements()
			s.Copy_(param, s.Reshape(s.Narrow(p, 0, at, n), param.Shape()...))
			at += n
		}
		return nil
	})
	return norm, err
}

// update is apply by kernels.
func (d *deviceAdam) update(s *tensor.Scope, o *Optimizer, grads []tensor.Tensor, lr float64) (float64, error) {
	dense := numeric.Map(grads, s.Contiguous)
	norm := math.Sqrt(s.SquareSums(dense))
	if !numeric.Finite(norm) {
		return norm, notFinite(norm)
	}
	o.adam.Step++
	at := int64(0)
	for i, p := range o.Params {
		n := p.NumElements()
		m, v := s.Narrow(d.m, 0, at, n), s.Narrow(d.v, 0, at, n)
		s.AdamW_(p, dense[i], m, v, o.adam, o.adam.Step, lr, tensor.ClipScale(norm, o.maxNorm))
		at += n
	}
	return norm, nil
}

// load copies the moments to a's slices, store those to the device.
func (d *deviceAdam) load(a *tensor.AdamW) {
	split(d.m.Host(), a.M)
	split(d.v.Host(), a.V)
}

func (d *deviceAdam) store(a *tensor.AdamW) {
	d.m.Store(slices.Concat(a.M...))
	d.v.Store(slices.Concat(a.V...))
}

func split(from []float32, into [][]float32) {
	for _, x := range into {
		from = from[copy(x, from):]
	}
}
