package lm

import "popri/tensor"

// A projection maps x [B, T, in] to [B, T, out]. It is one [Linear] or several joined.
type projection interface {
	apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor
	linears() []*Linear
	matrix() *matrix
}

// matrix is a weight as products see it.
type matrix struct {
	weight, bias tensor.Tensor // [out, in] or, where inOut, [in, out]; [out] or none
	inOut        bool
	packed       *tensor.Packed // for the matrix unit, or nil
}

// finish computes the projection of x, of any floating-point type, without an adapter and without gradients, and what
// follows it, as o says.
func finish(s *tensor.Scope, p projection, x tensor.Tensor, compute tensor.DType, o tensor.Epilogue) tensor.Tensor {
	w := p.matrix()
	if w.packed != nil {
		o.Bias = w.bias
		return w.packed.Product(s, x, o)
	}
	y := p.apply(s, s.To(x, compute), nil)
	if o.Gelu {
		y = s.GeluTanh(y)
	}
	if o.Residual.Defined() {
		y = s.Add(o.Residual, y)
	}
	if o.DType != 0 {
		y = s.To(y, o.DType)
	}
	return y
}

// Linear is one projection of the model that adapters can name.
type Linear struct {
	Name    string // as in the checkpoint, without ".weight"
	In, Out int64
	InOut   bool // the weight is stored [in, out] (GPT-2), not [out, in]
	weight  string
	m       *Model
	bias    string
	packed  *tensor.Packed
}

func (l *Linear) matrix() *matrix {
	w := &matrix{weight: l.Weight(), inOut: l.InOut, packed: l.packed}
	if l.bias != "" {
		w.bias = l.m.params[l.bias]
	}
	return w
}

// Weight returns the projection's weight as stored.
func (l *Linear) Weight() tensor.Tensor { return l.m.params[l.weight] }

func (l *Linear) linears() []*Linear { return []*Linear{l} }

func (l *Linear) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	var w, y tensor.Tensor
	fast := usable(s, l.packed, x)
	if !fast {
		w = s.To(l.m.params[l.weight], x.DType())
	}
	switch {
	case fast:
		y = l.packed.Product(s, x, tensor.Epilogue{Bias: l.matrix().bias})
	case l.InOut && l.bias != "":
		shape := x.Shape()
		rows := s.Reshape(x, -1, l.In)
		y = s.AddMM(s.To(l.m.params[l.bias], x.DType()), rows, w)
		y = s.View(y, append(shape[:len(shape)-1], l.Out)...)
	case l.InOut:
		y = s.MatMul(x, w)
	case l.bias != "":
		y = s.Linear(x, w, s.To(l.m.params[l.bias], x.DType()))
	default:
		y = s.Linear(x, w, tensor.Tensor{})
	}
	if adapter != nil {
		y = adapter.Apply(s, l.Name, x, y)
	}
	return y
}

// joined is several projections of one input as one product: the weights of its parts are rows of one tensor. Its output
// is theirs side by side.
type joined struct {
	parts        []*Linear
	weight, bias tensor.Tensor // [Σ out, in], [Σ out] or none; the parts' parameters are views of them
	packed       *tensor.Packed
}

func (j *joined) matrix() *matrix { return &matrix{weight: j.weight, bias: j.bias, packed: j.packed} }

func (j *joined) linears() []*Linear { return j.parts }

func (j *joined) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	out := make([]tensor.Tensor, len(j.parts))
	// Gradients belong to the parts, which the joined tensor does not lead back to.
	if j.parts[0].Weight().RequiresGrad() {
		for i, l := range j.parts {
			out[i] = l.apply(s, x, adapter)
		}
		return s.Cat(-1, out...)
	}
	var y tensor.Tensor
	if usable(s, j.packed, x) {
		y = j.packed.Product(s, x, tensor.Epilogue{Bias: j.bias})
	} else {
		bias := j.bias
		if bias.Defined() {
			bias = s.To(bias, x.DType())
		}
		y = s.Linear(x, s.To(j.weight, x.DType()), bias)
	}
	if adapter == nil {
		return y
	}
	at := int64(0)
	for i, l := range j.parts {
		out[i] = adapter.Apply(s, l.Name, x, s.Narrow(y, -1, at, l.Out))
		at += l.Out
	}
	return s.Cat(-1, out...)
}

// usable reports whether x may go through the matrix unit: nothing leads back through it.
func usable(s *tensor.Scope, p *tensor.Packed, x tensor.Tensor) bool {
	return p != nil && p.DType == x.DType() && !s.Recording()
}
