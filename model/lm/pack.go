package lm

import (
	"errors"
	"slices"

	"popri/model/tensor"
)

// packing is what the fast form keeps of a weight in addition to the original.
type packing struct {
	packed *tensor.Packed // the weight laid out, if [Model.Pack], [Model.Freeze] or [Model.Leaves] did it
	back   *tensor.Packed // its transpose, if [Model.Freeze] or [Model.Leaves] did it
	// The weight in the type of the products, of [Model.Leaves] or [Model.cast], and the bias in the type that they add
	// it in, of [Model.cast] or [Model.Pack]; or none.
	cast, castBias tensor.Tensor
}

// release releases what was laid out or converted.
func (p *packing) release() {
	p.packed.Free()
	p.back.Free()
	p.cast.Free()
	p.castBias.Free()
	*p = packing{}
}

// Pack lays the weights out for the CPU's products, in addition to the originals, in the type of m.Compute: passes without
// gradients are faster afterwards. It does nothing where [tensor.CanPack] denies it, or while the weights are trained.
// On a GPU it keeps them in that type. It must not be called while other goroutines use m.
func (m *Model) Pack() error {
	if tensor.OnDevice() {
		return m.castWeights()
	}
	if !tensor.CanPack(m.Compute) || m.packed() || m.trained() || !m.canSample() {
		return nil
	}
	return m.pack(false, func(projection) {})
}

// packed reports whether [Model.Pack] has laid the weights out.
func (m *Model) packed() bool { return m.head.packed != nil }

// trained reports whether the weights of the model are parameters.
func (m *Model) trained() bool { return m.embedding.tokens.RequiresGrad() }

// CanFreeze reports whether [Model.Freeze] lays the weights out: for the matrix unit of the CPU, of models whose two
// copies take 2 GiB at most. It depends on the model and the CPU alone, because products round otherwise.
func CanFreeze(c Config, parameters int64, compute tensor.DType) bool {
	return tensor.MatrixUnit() && !tensor.OnDevice() && 2*tensor.PackedSize(compute)*parameters <= 2<<30 &&
		!c.Classifies() && !c.twoWay()
}

// Freeze lays the weights out, in addition to the originals, for products and for the gradients of their inputs: passes that
// train adapters are faster until [Model.Unpack], because libtorch lays a weight out again for each product. It does
// nothing a second time, where [CanFreeze] denies it, or while the weights are trained. On a GPU it is [Model.Pack]. It
// must not be called while other goroutines use m.
func (m *Model) Freeze() error {
	if tensor.OnDevice() {
		return m.castWeights()
	}
	if m.head.back != nil || m.trained() || !CanFreeze(m.Config, m.Parameters(), m.Compute) {
		return nil
	}
	m.Unpack()
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, p := range m.projections() {
			p.layOut(s, m.Compute, p.gated())
			p.castBias = copied(s, p.bias, tensor.Float32)
		}
		m.widen(s)
		m.head.layOut(s, m.Compute)
		return nil
	})
	if err != nil {
		m.unpack()
	}
	return err
}

// pack lays all weights out, the projections' in bytes if asked to, and calls done with each projection.
func (m *Model) pack(bytes bool, done func(p projection)) error {
	return tensor.Run(func(s *tensor.Scope) error {
		for _, p := range m.projections() {
			if bytes {
				p.packed = s.Pack8(p.weight, p.InOut, p.gated())
			} else {
				p.packed = s.Pack(p.weight, p.InOut, p.gated(), m.Compute)
			}
			p.castBias = copied(s, p.bias, tensor.Float32)
			done(*p)
		}
		m.head.packed = s.Pack(m.head.weight, false, false, m.Compute)
		m.widen(s)
		return nil
	})
}

// packOnly is Pack with the originals released, except the embeddings.
func (m *Model) packOnly(bytes bool) error {
	switch {
	case bytes && (m.Compute != tensor.BFloat16 || !tensor.CanPack8() || !m.canSample()):
		return errors.New("lm: products of bytes are for models that write text in bfloat16, on a CPU with AVX-512 " +
			"VNNI and BF16 and without AMX, whose own products are faster")
	case !tensor.CanPack(m.Compute) || !m.canSample():
		return nil
	}
	release := func(name string, t *tensor.Tensor) {
		delete(m.params, name)
		t.Free()
		*t = tensor.Tensor{}
	}
	err := m.pack(bytes, func(p projection) {
		i := slices.Index(m.joined, p.weight)
		for _, l := range p.parts {
			release(l.Name+".weight", &l.weight)
		}
		if i >= 0 { // the parts' joined memory
			m.joined[i].Free()
			m.joined = slices.Delete(m.joined, i, i+1)
			p.weight = tensor.Tensor{}
		}
	})
	if m.head.weight != m.embedding.tokens {
		release(headName, &m.head.weight)
	}
	m.samples = true
	return err
}

// whole panics if the original weights were released.
func (m *Model) whole(op string) {
	if m.samples {
		panic(&tensor.Error{Op: op, Text: "the model was made for sampling alone"})
	}
}

// Unpack releases the memory of Pack and Freeze. It must be called before weights change.
func (m *Model) Unpack() {
	m.whole("Unpack")
	m.unpack()
}

// unpack is Unpack of any model.
func (m *Model) unpack() {
	for _, p := range m.projections() {
		p.release()
	}
	for _, t := range m.widened {
		t.Free()
	}
	m.widened = nil
	m.head.release()
}

// layOut lays the weight and its transpose out for products of type d, the weight as one of gates if asked to.
func (w *matrix) layOut(s *tensor.Scope, d tensor.DType, gated bool) {
	weight := s.Detach(w.weight)
	w.packed, w.back = s.Pack(weight, w.InOut, gated, d), s.Pack(weight, !w.InOut, false, d)
}

// gated reports whether the weight can be laid out as one of gates.
func (w *matrix) gated() bool { return w.gates && w.weight.Size(0)%32 == 0 }

// projections returns all blocks' projections.
func (m *Model) projections() (all []*projection) {
	for i := range m.blocks {
		all = append(all, m.blocks[i].projections()...)
	}
	return all
}

// Leaves makes copies of the projections' weights among params, and of the head, in the type of the products, if that
// is another one. All passes of an update use them, so that weights are converted once an update instead of once a
// pass, and gradients of weights are kept in that type until they are added up. For the matrix unit of the CPU, it lays
// these weights out for products, too, where [CanFreeze] would. leaves are params with the copies in their stead: what
// gradients are computed for. free releases the copies; weights must not change before.
func (m *Model) Leaves(params []tensor.Tensor) (leaves []tensor.Tensor, free func(), err error) {
	leaves = slices.Clone(params)
	lay := CanFreeze(m.Config, m.Parameters(), m.Compute) && m.head.packed == nil
	if m.Compute == tensor.Float32 && !lay {
		return leaves, func() {}, nil
	}
	var done []*Linear
	var laidHead bool
	free = func() {
		for _, l := range done {
			l.release()
		}
		m.head.cast.Free()
		m.head.cast = tensor.Tensor{}
		if laidHead {
			m.head.release()
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
		m.head.cast = copied(s, m.head.weight, m.Compute)
		if laidHead = lay && slices.Contains(params, m.head.weight); laidHead {
			m.head.layOut(s, m.Compute)
		}
		return nil
	})
	if err != nil {
		free()
	}
	return leaves, free, err
}

// castWeights keeps the weights in the type of the products, in addition to the originals, if that is another one, until
// [Model.Unpack]: a GPU would convert them for each product, and wait for the host to say so.
func (m *Model) castWeights() error {
	leaf := func(p *projection) bool { return p.cast.Defined() }
	if m.Compute == tensor.Float32 || m.trained() || m.widened != nil || slices.ContainsFunc(m.projections(), leaf) {
		return nil
	}
	return tensor.Run(func(s *tensor.Scope) error {
		for _, p := range m.projections() {
			p.cast, p.castBias = copied(s, p.weight, m.Compute), copied(s, p.bias, m.Compute)
		}
		m.head.cast = copied(s, m.head.weight, m.Compute)
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
	m.widened = map[string]tensor.Tensor{}
	for name, t := range m.params {
		if len(t.Shape()) == 1 && t.DType() != tensor.Float32 {
			m.widened[name] = copied(s, t, tensor.Float32)
		}
	}
}
