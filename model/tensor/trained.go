package tensor

// #include "torch.h"
import "C"

// Trained returns the projection of x [n, in] by w, whose matrix may be trained: it has a gradient for x, the matrix, in
// the matrix's type, and the bias. w.Packed and w.Back lay the matrix out as it is now, for products of the type of x.
// It needs a [MatrixUnit] and the CPU.
func (s *Scope) Trained(x Tensor, w Weight) Tensor {
	x = s.Contiguous(x)
	if w.Packed == nil || w.Back == nil || w.Packed.DType != x.DType() || w.Matrix.DType() != x.DType() {
		refuse("Trained", "the matrix is not laid out for products of this type", x, w.Matrix)
	}
	var y Tensor
	s.NoGrad(func() { y = w.Packed.Outputs(s, x, w.Bias) })
	inputs := []Tensor{x, w.Matrix, w.Bias}
	if !w.Bias.Defined() {
		inputs[2] = x // stands for none
	}
	numbers := []float64{0, 0}
	if w.InOut {
		numbers[0] = 1
	}
	if w.Bias.Defined() {
		numbers[1] = 1
	}
	s.record(step{op: stepTrained, numbers: numbers, saved: []Tensor{x, w.Back.data}, inputs: inputs, outputs: []Tensor{y}})
	return y
}

func trainedGradient(b backward) []Tensor {
	x, back, dy := b.saved[0], b.saved[1], b.Contiguous(b.outGrads[0])
	grads := make([]Tensor, 3)
	if b.wanted[0] {
		grads[0] = laidOut(back, dy.Size(1), x.Size(1), x.DType()).Product(b.Scope, dy, Epilogue{})
	}
	switch {
	case !b.wanted[1]:
	case b.numbers[0] != 0:
		grads[1] = b.CrossProduct(x, dy, Tensor{}, x.DType())
	default:
		grads[1] = b.CrossProduct(dy, x, Tensor{}, x.DType())
	}
	if b.wanted[2] && b.numbers[1] != 0 {
		grads[2] = b.Empty(Float32, dy.Size(1)) // the sums of one factor, which is 1
		b.sums(dy, b.Full(Float32, 1, dy.Size(0), 1), 0, 0, 1, dy.Size(1), grads[2])
	}
	return grads
}
