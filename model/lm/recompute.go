package lm

import "popri/model/tensor"

// replay is a forward pass that kept only the inputs of the blocks.
type replay struct {
	in        Input
	positions tensor.Tensor // whose hidden states are scored, unless they are the input's; none: all
	adapter   Adapter
	pass      pass
	inputs    []tensor.Tensor // of each block, and of the final norm
}

// forward returns the hidden states at the scored positions.
func (p *replay) forward(s *tensor.Scope, m *Model) tensor.Tensor {
	m.whole("Hidden")
	p.pass = m.newPass(s, p.in, p.adapter)
	x := m.embed(s, p.in)
	for i := range m.blocks {
		p.inputs = append(p.inputs, x)
		x = p.pass.block(s, i, x)
	}
	p.inputs = append(p.inputs, x)
	return p.last(s, m, x)
}

func (p *replay) last(s *tensor.Scope, m *Model, x tensor.Tensor) tensor.Tensor {
	return m.pick(s, normed(s, m.norm, x), p.positions, p.in.drop)
}

// backward computes the blocks again, the last one first, each with its own graph. root makes a scalar of the hidden
// states.
func (p *replay) backward(s *tensor.Scope, m *Model, root func(hidden tensor.Tensor) tensor.Tensor,
	params []tensor.Tensor) []tensor.Tensor {
	sums := make([]tensor.Tensor, len(params))
	defer func() { s.Own(sums...) }()
	// section returns the gradient of f at x, the scalar of a graph from x, and adds the gradients of the parameters to
	// the sums.
	section := func(x tensor.Tensor, f func(x tensor.Tensor) tensor.Tensor) (dx tensor.Tensor) {
		return s.Nest(func() tensor.Tensor {
			wanted := params
			if x.Defined() {
				x = s.Detach(x)
				s.RequireGrad(x, true)
				wanted = append([]tensor.Tensor{x}, params...)
			}
			grads := s.Backward(f(x), wanted)
			if x.Defined() {
				dx, grads = grads[0], grads[1:]
			}
			for i, g := range grads {
				switch {
				case !g.Defined():
				case sums[i].Defined():
					s.NoGrad(func() { s.Add_(sums[i], g) })
				default:
					// A gradient may share memory with another one, and the sum is written to.
					sums[i] = s.Keep(s.Clone(g))
				}
			}
			return dx
		})
	}
	end := len(m.blocks)
	dx := section(p.inputs[end], func(x tensor.Tensor) tensor.Tensor { return root(p.last(s, m, x)) })
	for i := end - 1; i >= 0; i-- {
		after := dx
		dx = section(p.inputs[i], func(x tensor.Tensor) tensor.Tensor {
			return product(s, p.pass.block(s, i, x), after)
		})
	}
	if m.trained() {
		section(tensor.Tensor{}, func(tensor.Tensor) tensor.Tensor { return product(s, m.embed(s, p.in), dx) })
	}
	return sums
}
