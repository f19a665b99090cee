// Package tensor is a safe, thin layer over the C functions of libtorch that gotch's libtch exports.
//
// Memory has one owner: a [Scope] frees whatever was made in it when its [Run] ends, and what must outlive it is taken
// out with [Scope.Keep] and freed by hand. There are no finalizers: they may run while a C call still uses the tensor.
//
//	err := tensor.Run(func(s *tensor.Scope) error {
//		y := s.MatMul(x, w)      // freed at the end of Run
//		fmt.Println(y.Float32s())
//		return nil
//	})
//
// libtorch keeps its error text, its grad mode and its thread count per operating-system thread. Run therefore locks
// the goroutine to its thread and sets all three; a Scope must not be used by another goroutine.
//
// Operations do not return errors one by one. A failing one unwinds to the enclosing Run, which returns an [*Error]
// with the operation and the shapes of its arguments, the way gonum's mat.Maybe does.
package tensor
