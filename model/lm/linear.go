package lm

import "popri/model/tensor"

// A projection maps x [B, T, in] to [B, T, out]. It is one [Linear] or several joined.
type projection interface {
	apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor
	linears() []*Linear
	product() *matrix
}

// matrix is the weight of one product.
type matrix struct {
	weight, bias tensor.Tensor  // [out, in] or, where InOut, [in, out]; [out] or none
	InOut        bool           // as GPT-2 stores it
	gates        bool           // the first half of the outputs gates the second half
	packed       *tensor.Packed // the weight laid out, if [Model.Pack], [Model.Freeze] or [Model.Leaves] did it
	back         *tensor.Packed // its transpose, if [Model.Freeze] or [Model.Leaves] did it
	// The weight in the type of the products, of [Model.Leaves] or [Model.cast], and the bias in the type that they add
	// it in, of [Model.cast] or [Model.Pack]; or none.
	cast, castBias tensor.Tensor
}

func (w *matrix) product() *matrix { return w }

// apply returns x·weight + bias.
func (w *matrix) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	// Products with packed weights record no gradient.
	if w.packed != nil && w.packed.DType == x.DType() && !s.Recording() {
		return w.packed.Outputs(s, x, w.biasIn(tensor.Float32))
	}
	weight, bias := w.of(s, x.DType())
	if w.back != nil && w.back.DType == x.DType() && s.Recording() {
		laid := w.laidOut()
		laid.Matrix = weight
		return inRows(s, x, func(x tensor.Tensor) tensor.Tensor { return s.Trained(x, laid) })
	}
	if !w.InOut {
		return s.Linear(x, weight, bias)
	}
	return inRows(s, x, func(x tensor.Tensor) tensor.Tensor { return s.Projected(x, weight, bias, true) })
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

// laidOut is the weight as it is laid out, with the bias in float32.
func (w *matrix) laidOut() tensor.Weight {
	return tensor.Weight{Bias: w.biasIn(tensor.Float32), InOut: w.InOut, Packed: w.packed, Back: w.back}
}

// biasIn is the bias, in type d where there is a copy in it.
func (w *matrix) biasIn(d tensor.DType) tensor.Tensor {
	if w.castBias.Defined() && w.castBias.DType() == d {
		return w.castBias
	}
	return w.bias
}

// inRows applies f, which maps [n, in] to [n, out], to the last dimension of x.
func inRows(s *tensor.Scope, x tensor.Tensor, f func(x tensor.Tensor) tensor.Tensor) tensor.Tensor {
	shape := x.Shape()
	y := f(s.Reshape(x, -1, shape[len(shape)-1]))
	return s.View(y, append(shape[:len(shape)-1], y.Size(1))...)
}

// lowRank is an adapter whose change of projections of one input can be a product of low rank.
type lowRank interface {
	// Factors returns what is added to the outputs of parts side by side; no parts of it where nothing is. ok is false
	// where the change is another one.
	Factors(s *tensor.Scope, parts []*Linear) (l tensor.LowRank, ok bool)
}

// factors are what an adapter, or none, adds to parts. ok is false where its change is another one.
func factors(s *tensor.Scope, parts []*Linear, adapter Adapter) (l tensor.LowRank, ok bool) {
	if adapter == nil {
		return l, true
	}
	a, ok := adapter.(lowRank)
	if !ok {
		return l, false
	}
	return a.Factors(s, parts)
}

// adapted is apply with an adapter of the parts, whose outputs the product has side by side, plus residual, if that is
// defined. Where the weight is laid out, the sum is rounded once. ok is false where the adapter must be applied to each
// of the parts, or these are trained.
func (w *matrix) adapted(s *tensor.Scope, x, residual tensor.Tensor, parts []*Linear, adapter Adapter) (y tensor.Tensor,
	ok bool) {
	if parts[0].weight.RequiresGrad() {
		return y, false
	}
	l, ok := factors(s, parts, adapter)
	if !ok {
		return y, false
	}
	frozen := w.laidOut()
	if !frozen.LaidOut(x.DType()) {
		if len(l.Parts) == 0 {
			if y = w.apply(s, x); residual.Defined() {
				y = s.Add(residual, y)
			}
			return y, true
		}
		frozen.Matrix, frozen.Bias = w.of(s, x.DType())
	}
	if residual.Defined() {
		residual = s.Reshape(residual, -1, residual.Size(-1))
	}
	return inRows(s, x, func(x tensor.Tensor) tensor.Tensor { return s.Adapted(x, frozen, l, residual) }), true
}

// projectedOnto returns residual plus the projection of x with an adapter.
func projectedOnto(s *tensor.Scope, p projection, x, residual tensor.Tensor, adapter Adapter) tensor.Tensor {
	if y, ok := p.product().adapted(s, x, residual, p.linears(), adapter); ok {
		return y
	}
	return s.Add(residual, p.apply(s, x, adapter))
}

// finish computes the projection of x, of any floating-point type, without an adapter and without gradients, and the
// operations of o after it.
func finish(s *tensor.Scope, p projection, x tensor.Tensor, compute tensor.DType, o tensor.Epilogue) tensor.Tensor {
	if w := p.product(); w.packed != nil {
		o.Bias = w.biasIn(tensor.Float32)
		return w.packed.Product(s, x, o)
	}
	return o.Finish(s, p.apply(s, s.To(x, compute), nil))
}

// Linear is one projection of the model that adapters can name.
type Linear struct {
	Name    string // as in the checkpoint, without ".weight"
	In, Out int64
	matrix
}

// Weight returns the projection's weight as stored.
func (l *Linear) Weight() tensor.Tensor { return l.weight }

// Bias returns the projection's bias, the zero Tensor if it has none.
func (l *Linear) Bias() tensor.Tensor { return l.bias }

// Product returns x·weight, the projection without its bias.
func (l *Linear) Product(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	w := l.matrix
	w.bias = tensor.Tensor{}
	return w.apply(s, x)
}

func (l *Linear) linears() []*Linear { return []*Linear{l} }

func (l *Linear) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	if adapter == nil {
		return l.matrix.apply(s, x)
	}
	if y, ok := l.adapted(s, x, tensor.Tensor{}, l.linears(), adapter); ok {
		return y
	}
	return adapter.Apply(s, l.Name, x, l.matrix.apply(s, x))
}

// joined is several projections of one input as one product: the weights of its parts are rows of one tensor. Its
// output has theirs side by side.
type joined struct {
	parts  []*Linear
	matrix // all rows; the parts' parameters are views of it
}

func (j *joined) linears() []*Linear { return j.parts }

func (j *joined) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	out := make([]tensor.Tensor, len(j.parts))
	// Gradients belong to the parts; the joined tensor does not propagate them.
	if j.parts[0].Weight().RequiresGrad() {
		for i, l := range j.parts {
			out[i] = l.apply(s, x, adapter)
		}
		return s.Cat(-1, out...)
	}
	if adapter == nil {
		return j.matrix.apply(s, x)
	}
	if y, ok := j.adapted(s, x, tensor.Tensor{}, j.parts, adapter); ok {
		return y
	}
	y := j.matrix.apply(s, x)
	at := int64(0)
	for i, l := range j.parts {
		out[i] = adapter.Apply(s, l.Name, x, s.Narrow(y, -1, at, l.Out))
		at += l.Out
	}
	return s.Cat(-1, out...)
}
