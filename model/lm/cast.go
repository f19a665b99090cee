package lm

import (
	"slices"

	"popri/model/tensor"
)

// Leaves makes copies of the projections' weights among params, and of the head, in the type of the products, if that
// is another one. All passes of an update use them, so that weights are converted once an update instead of once a
// pass, and gradients of weights are kept in that type until they are added up. For the matrix unit of the CPU, it lays
// these weights out for products, too, where [CanFreeze] would. leaves are params with the copies in their places: what
// gradients are computed for. free releases the copies; weights must not change before.
func (m *Model) Leaves(params []tensor.Tensor) (leaves []tensor.Tensor, free func(), err error) {
	leaves = slices.Clone(params)
	lay := CanFreeze(m.Config, m.Parameters(), m.Compute) && m.headPacked == nil
	if m.Compute == tensor.Float32 && !lay {
		return leaves, func() {}, nil
	}
	var done []*Linear
	var head bool
	free = func() {
		for _, l := range done {
			l.release()
		}
		m.headCast.Free()
		m.headCast = tensor.Tensor{}
		if head {
			m.releaseHead()
		}
	}
	err = tensor.Run(func(s *tensor.Scope) error {
		for _, l := range m.linears {
			i := slices.Index(params, l.weight)
			if i < 0 {
				continue
			}
			done = append(done, l)
			if m.Compute != tensor.Float32 {
				l.cast = s.Keep(s.To(s.Detach(l.weight), m.Compute))
				s.RequireGrad(l.cast, true)
				leaves[i] = l.cast
			}
			if lay {
				l.layOut(s, m.Compute, false)
			}
		}
		if m.head.DType() != m.Compute {
			m.headCast = s.Keep(s.To(s.Detach(m.head), m.Compute))
		}
		if head = lay && slices.Contains(params, m.head); head {
			m.layHeadOut(s)
		}
		return nil
	})
	if err != nil {
		free()
	}
	return leaves, free, err
}

// cast keeps the weights in the type of the products, beside the originals, if that is another one, until
// [Model.Unpack]: a GPU would convert them for each product, and wait for the host to say so.
func (m *Model) cast() error {
	leaf := func(w *matrix) bool { return w.cast.Defined() }
	if m.Compute == tensor.Float32 || m.tok.RequiresGrad() || m.vectors != nil ||
		slices.ContainsFunc(m.products(), leaf) {
		return nil
	}
	return tensor.Run(func(s *tensor.Scope) error {
		for _, w := range m.products() {
			w.cast, w.castBias = copied(s, w.weight, m.Compute), copied(s, w.bias, m.Compute)
		}
		m.headCast = copied(s, m.head, m.Compute)
		m.widen(s)
		return nil
	})
}

// copied is t in type d, to be freed; or none if t is of that type.
func copied(s *tensor.Scope, t tensor.Tensor, d tensor.DType) tensor.Tensor {
	if !t.Defined() || t.DType() == d {
		return tensor.Tensor{}
	}
	return s.Keep(s.To(s.Detach(t), d))
}

// widen keeps parameters with one dimension, such as the weights of norms, in float32 until [Model.Unpack]: kernels
// compute with them so.
func (m *Model) widen(s *tensor.Scope) {
	m.vectors = map[string]tensor.Tensor{}
	for name, t := range m.params {
		if len(t.Shape()) == 1 && t.DType() != tensor.Float32 {
			m.vectors[name] = copied(s, t, tensor.Float32)
		}
	}
}

// vector is a parameter with one dimension, in float32 where there is a copy.
func (m *Model) vector(name string) tensor.Tensor {
	if t, ok := m.vectors[name]; ok {
		return t
	}
	return m.params[name]
}

// projectHead maps hidden states [n, H] to logits [n, V] of their type, without a bias, a cap and a gradient.
func (m *Model) projectHead(s *tensor.Scope, h tensor.Tensor) tensor.Tensor {
	if m.headLaidOut(h.DType()) {
		return m.headPacked.Product(s, h, tensor.Epilogue{})
	}
	return s.MatMul(h, s.Transpose(m.headFor(s, h.DType()), 0, 1))
}

// headSlopes maps gradients of logits [n, V] to those of hidden states.
func (m *Model) headSlopes(s *tensor.Scope, logits tensor.Tensor) tensor.Tensor {
	if m.headLaidOut(logits.DType()) {
		return m.headBack.Product(s, logits, tensor.Epilogue{})
	}
	return s.MatMul(logits, m.headFor(s, logits.DType()))
}

// headFor returns the head in type d.
func (m *Model) headFor(s *tensor.Scope, d tensor.DType) tensor.Tensor {
	if m.headCast.Defined() && m.headCast.DType() == d {
		return m.headCast
	}
	return s.To(s.Detach(m.head), d)
}
