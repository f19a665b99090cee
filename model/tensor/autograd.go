package tensor

// #include "torch.h"
import "C"

// Detach returns t without its history.
func (s *Scope) Detach(a Tensor) Tensor { return s.unary("Detach", C.atg_detach, a) }

// RequireGrad says whether t, a leaf, is a parameter that gets gradients.
func (s *Scope) RequireGrad(t Tensor, on bool) {
	s.inPlace("RequireGrad", func(out *C.tensor) { C.atg_set_requires_grad(out, t.c, cbool(on)) }, t)
}

// Backward returns the gradients of the scalar loss with respect to params, in their order, and frees the graph. The
// gradient of a parameter that took no part in the loss is none.
func (s *Scope) Backward(loss Tensor, params []Tensor) []Tensor {
	if len(params) == 0 {
		return nil
	}
	grads := make([]Tensor, len(params))
	C.at_run_backward(&[]C.tensor{loss.c}[0], 1, handles(params), C.int(len(params)), handles(grads), 0, 0)
	s.check("Backward", loss)
	for i, g := range grads {
		if C.at_defined(g.c) == 0 {
			C.at_free(g.c)
			grads[i] = Tensor{}
			continue
		}
		grads[i] = s.own("Backward", g.c, loss, params[i])
	}
	return grads
}
