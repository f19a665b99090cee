package lm

import (
	"errors"
	"slices"

	"popri/model/tensor"
)

// Pack lays the weights out for the CPU's products, beside the originals, in the type of m.Compute: passes without
// gradients are faster afterwards. It does nothing where [tensor.CanPack] denies it, or while the weights are trained.
// On a GPU it keeps them in that type. It must not be called while other goroutines use m.
func (m *Model) Pack() error {
	if tensor.OnDevice() {
		return m.cast()
	}
	if !tensor.CanPack(m.Compute) || m.packed() || m.tok.RequiresGrad() || !m.canSample() {
		return nil
	}
	return m.pack(false, func(projection) {})
}

// CanFreeze reports whether [Model.Freeze] lays the weights out: for the matrix unit of the CPU, of models whose two
// copies take 2 GiB at most. It depends on the model and the CPU alone, because products round otherwise.
func CanFreeze(c Config, parameters int64, compute tensor.DType) bool {
	return tensor.MatrixUnit() && !tensor.OnDevice() && 2*tensor.PackedSize(compute)*parameters <= 2<<30 &&
		!c.Classifies() && !c.twoWay()
}

// Freeze lays the weights out, beside the originals, for products and for the gradients of their inputs: passes that
// train adapters are faster until [Model.Unpack], because libtorch lays a weight out anew for each product. It does
// nothing a second time, where [CanFreeze] denies it, or while the weights are trained. On a GPU it is [Model.Pack]. It
// must not be called while other goroutines use m.
func (m *Model) Freeze() error {
	if tensor.OnDevice() {
		return m.cast()
	}
	if m.headBack != nil || m.tok.RequiresGrad() || !CanFreeze(m.Config, m.Parameters(), m.Compute) {
		return nil
	}
	m.Unpack()
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, w := range m.products() {
			w.layOut(s, m.Compute, w.gated())
			w.castBias = copied(s, w.bias, tensor.Float32)
		}
		m.widen(s)
		m.layHeadOut(s)
		return nil
	})
	if err != nil {
		m.unpack()
	}
	return err
}

// pack lays all weights out, those of projections in bytes if asked to, and tells done of each projection.
func (m *Model) pack(bytes bool, done func(p projection)) error {
	return tensor.Run(func(s *tensor.Scope) error {
		for _, b := range m.blocks {
			for _, p := range b.projections() {
				w := p.product()
				if bytes {
					w.packed = s.Pack8(w.weight, w.InOut, w.gated())
				} else {
					w.packed = s.Pack(w.weight, w.InOut, w.gated(), m.Compute)
				}
				w.castBias = copied(s, w.bias, tensor.Float32)
				done(p)
			}
		}
		m.headPacked = s.Pack(m.head, false, false, m.Compute)
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
		w := p.product()
		i := slices.Index(m.shared, w.weight)
		for _, l := range p.linears() {
			release(l.Name+".weight", &l.weight)
		}
		if i >= 0 { // the parts' joined memory
			m.shared[i].Free()
			m.shared = slices.Delete(m.shared, i, i+1)
			w.weight = tensor.Tensor{}
		}
	})
	if m.head != m.tok {
		release(headName, &m.head)
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
	for _, w := range m.products() {
		w.release()
	}
	m.headCast.Free()
	m.headCast = tensor.Tensor{}
	for _, t := range m.vectors {
		t.Free()
	}
	m.vectors = nil
	m.releaseHead()
}

// layOut lays the weight and its transpose out for products of type d, the weight as one of gates if asked to.
func (w *matrix) layOut(s *tensor.Scope, d tensor.DType, gated bool) {
	weight := s.Detach(w.weight)
	w.packed, w.back = s.Pack(weight, w.InOut, gated, d), s.Pack(weight, !w.InOut, false, d)
}

// gated reports whether the weight can be laid out as one of gates.
func (w *matrix) gated() bool { return w.gates && w.weight.Size(0)%32 == 0 }

// release releases what was laid out or converted.
func (w *matrix) release() {
	w.packed.Free()
	w.back.Free()
	w.packed, w.back = nil, nil
	w.cast.Free()
	w.castBias.Free()
	w.cast, w.castBias = tensor.Tensor{}, tensor.Tensor{}
}

// layHeadOut is layOut of the head.
func (m *Model) layHeadOut(s *tensor.Scope) {
	head := s.Detach(m.head)
	m.headPacked, m.headBack = s.Pack(head, false, false, m.Compute), s.Pack(head, true, false, m.Compute)
}

// headLaidOut reports whether the head and its transpose are laid out for products of type d.
func (m *Model) headLaidOut(d tensor.DType) bool { return m.headBack != nil && m.headBack.DType == d }

func (m *Model) releaseHead() {
	m.headPacked.Free()
	m.headBack.Free()
	m.headPacked, m.headBack = nil, nil
}

// products returns the weights of all blocks' projections.
func (m *Model) products() []*matrix {
	var all []*matrix
	for _, b := range m.blocks {
		for _, p := range b.projections() {
			all = append(all, p.product())
		}
	}
	return all
}

// packed reports whether [Model.Pack] has laid the weights out.
func (m *Model) packed() bool { return m.headPacked != nil }
