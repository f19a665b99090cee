package lm

import "popri/tensor"

// Pack lays the weights out for the CPU's matrix unit, beside the originals, in the type of m.Compute: passes without
// gradients are faster afterwards. It does nothing where there is no such unit, or where the weights are being trained.
// It must not be called while other goroutines use m.
func (m *Model) Pack() error {
	if !tensor.MatrixUnit() || m.headPacked != nil || m.tok.RequiresGrad() {
		return nil
	}
	return tensor.Run(func(s *tensor.Scope) error {
		pack := func(w *matrix) *tensor.Packed { return s.Pack(w.weight, w.inOut, m.Compute) }
		for _, b := range m.blocks {
			for _, p := range append(b.mlp.projections(), b.attn.qkv, b.attn.out) {
				switch p := p.(type) {
				case *Linear:
					p.packed = pack(p.matrix())
				case *joined:
					p.packed = pack(p.matrix())
				}
			}
		}
		m.headPacked = s.Pack(m.head, false, m.Compute)
		return nil
	})
}

// unpack releases what Pack made.
func (m *Model) unpack() {
	for _, b := range m.blocks {
		for _, p := range append(b.mlp.projections(), b.attn.qkv, b.attn.out) {
			switch p := p.(type) {
			case *Linear:
				p.packed.Free()
				p.packed = nil
			case *joined:
				p.packed.Free()
				p.packed = nil
			}
		}
	}
	m.headPacked.Free()
	m.headPacked = nil
}
