package tensor

// #include "torch.h"
import "C"

import "fmt"

// Detach returns t without its history.
func (s *Scope) Detach(a Tensor) Tensor {
	var out C.tensor
	C.atg_detach(&out, a.c)
	return s.own("Detach", out, a)
}

// RequireGrad says whether t, a leaf, is a parameter that gets gradients.
func (s *Scope) RequireGrad(t Tensor, on bool) {
	var out C.tensor
	C.atg_set_requires_grad(&out, t.c, cbool(on))
	s.inPlace("RequireGrad", out, t)
}

// Backward returns the gradients of the scalar loss with respect to params, in their order, and frees the graph. Every
// parameter must have taken part in the loss.
func (s *Scope) Backward(loss Tensor, params []Tensor) []Tensor {
	grads := s.BackwardSome(loss, params)
	for i, g := range grads {
		if !g.Defined() {
			panic(&Error{Op: "Backward", Shapes: []string{loss.describe(), params[i].describe()},
				Text: fmt.Sprintf("parameter %d took no part in the loss", i)})
		}
	}
	return grads
}

// BackwardSome is [Scope.Backward] for parameters of which some took no part: their gradients are none.
func (s *Scope) BackwardSome(loss Tensor, params []Tensor) []Tensor {
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
