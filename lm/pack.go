package lm

import "popri/tensor"

// Pack lays the weights out for the CPU's matrix unit, beside the originals, in the type of m.Compute: passes without
// gradients are faster afterwards. It does nothing where there is no such unit, or where the weights are being trained.
// It must not be called while other goroutines use m.
func (m *Model) Pack() error {
	if !tensor.MatrixUnit() || m.packed() || m.tok.RequiresGrad() {
		return nil
	}
	return tensor.Run(func(s *tensor.Scope) error {
		for _, w := range m.products() {
			w.packed = s.Pack(w.weight, w.InOut, w.gates && w.weight.Size(0)%32 == 0, m.Compute)
		}
		m.headPacked = s.Pack(m.head, false, false, m.Compute)
		return nil
	})
}

// unpack releases what Pack made.
func (m *Model) unpack() {
	for _, w := range m.products() {
		w.packed.Free()
		w.packed = nil
	}
	m.headPacked.Free()
	m.headPacked = nil
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
