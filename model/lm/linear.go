package lm

import "popri/model/tensor"

// Linear is one projection of the model that adapters can name.
type Linear struct {
	Name    string // as in the checkpoint, without ".weight"
	In, Out int64
	matrix
}

// Weight returns the projection's weight as stored.
func (l *Linear) Weight() tensor.Tensor { return l.weight }

// matrix is the weight of one product.
type matrix struct {
	weight, bias tensor.Tensor // [out, in] or, where InOut, [in, out]; [out] or none
	InOut        bool          // as GPT-2 stores it
	gates        bool          // the first half of the outputs gates the second half
	packing
}

// of returns weight and bias in type d.
func (w *matrix) of(s *tensor.Scope, d tensor.DType) (weight, bias tensor.Tensor) {
	weight, bias = w.cast, w.biasIn(d)
	if !weight.Defined() || weight.DType() != d {
		weight = s.To(w.weight, d)
	}
	if bias.Defined() {
		bias = s.To(bias, d)
	}
	return weight, bias
}

// biasIn is the bias, in type d where there is a copy in it.
func (w *matrix) biasIn(d tensor.DType) tensor.Tensor {
	if w.castBias.Defined() && w.castBias.DType() == d {
		return w.castBias
	}
	return w.bias
}

// plain returns x·weight + bias.
func (w *matrix) plain(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	weight, bias := w.of(s, x.DType())
	if !w.InOut {
		return s.Linear(x, weight, bias)
	}
	return inRows(s, x, func(x tensor.Tensor) tensor.Tensor { return s.Projected(x, weight, bias, true) })
}

// inRows applies f, which maps [n, in] to [n, out], to the last dimension of x.
func inRows(s *tensor.Scope, x tensor.Tensor, f func(x tensor.Tensor) tensor.Tensor) tensor.Tensor {
	shape := x.Shape()
	y := f(s.Reshape(x, -1, shape[len(shape)-1]))
	return s.View(y, append(shape[:len(shape)-1], y.Size(1))...)
}

// A projection maps x [B, T, in] to the outputs of its parts side by side, [B, T, out], by one product.
type projection struct {
	parts   []*Linear
	*matrix // the matrix of the one part, or of all: theirs are views of its rows
}

func single(l *Linear) projection { return projection{[]*Linear{l}, &l.matrix} }

// trained reports whether the weights are trained. Gradients then belong to the parts.
func (p projection) trained() bool { return p.parts[0].weight.RequiresGrad() }

// apply computes the projection with an adapter, or nil, by the given form of the product.
func (p projection) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter,
	product func(w *matrix, s *tensor.Scope, x tensor.Tensor) tensor.Tensor) tensor.Tensor {
	out := make([]tensor.Tensor, len(p.parts))
	if len(p.parts) > 1 && p.trained() {
		for i, l := range p.parts {
			out[i] = single(l).apply(s, x, adapter, product)
		}
		return s.Cat(-1, out...)
	}
	y := product(p.matrix, s, x)
	switch {
	case adapter == nil:
		return y
	case len(p.parts) == 1:
		return adapter.Apply(s, p.parts[0].Name, x, y)
	}
	from := int64(0)
	for i, l := range p.parts {
		out[i] = adapter.Apply(s, l.Name, x, s.Narrow(y, -1, from, l.Out))
		from += l.Out
	}
	return s.Cat(-1, out...)
}
