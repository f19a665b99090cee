package tensor

// #include <stdlib.h>
// #include "torch.h"
// char *popriBackward(int op, double *numbers, tensor *saved, tensor *grads, char *wanted, tensor *results);
// static void steps(void) { popri_steps(popriBackward); }
import "C"

import (
	"fmt"
	"unsafe"
)

// A step is an operation whose gradient is computed by this package's kernels, as one node of libtorch's graph.
type step struct {
	op      int // of gradients
	numbers []float64
	saved   []Tensor // for the backward pass, which must not change before
	inputs  []Tensor
	outputs []Tensor // computed, without a graph
}

// The operations.
const (
	stepRMSNorm = iota
	stepSwiGLU
	stepGelu
	stepSplitHeads
	stepSoftmax
	stepAttend
	stepAdapted
	stepLayerNorm
	stepDrop
	stepTrained
	stepLowRank
	stepMLP
	stepAdaptedLaidOut
)

// backward is what a gradient is computed from.
type backward struct {
	*Scope
	numbers  []float64
	saved    []Tensor
	outGrads []Tensor // gradients of the outputs; none where there is no gradient
	wanted   []bool   // of the inputs
}

// gradients gives, for each operation, the numbers of what its steps have, and the gradients of the inputs.
var gradients = [...]struct {
	numbers, saved, inputs, outputs int
	of                              func(b backward) []Tensor
}{
	stepRMSNorm:        {1, 2, 2, 2, rmsNormGradient},
	stepSwiGLU:         {0, 1, 1, 1, swiGLUGradient},
	stepGelu:           {0, 1, 1, 1, geluGradient},
	stepSplitHeads:     {6, 2, 1, 3, splitHeadsGradient},
	stepSoftmax:        {1, 1, 1, 1, softmaxGradient},
	stepAttend:         {5, 7, 3, 1, attendGradient},
	stepLayerNorm:      {1, 2, 3, 2, layerNormGradient},
	stepDrop:           {1, 1, 1, 1, dropGradient},
	stepTrained:        {2, 2, 3, 1, trainedGradient},
	stepLowRank:        {1 + 3*lowRankParts, 1, 2 * lowRankParts, 2, lowRankGradient},
	stepMLP:            {2*(1+3*lowRankParts) + 1, 10, 6, 1, mlpGradient},
	stepAdaptedLaidOut: {2 + 3*lowRankParts, 5, 4, 1, adaptedLaidOutGradient},
	stepAdapted:        {2 + 3*lowRankParts, 5, 3, 1, adaptedGradient},
}

func init() { C.steps() }

// record adds the outputs of t to the graph, if gradients are recorded and one of its inputs needs one.
func (s *Scope) record(t step) {
	if !s.grad {
		return
	}
	g := gradients[t.op]
	if len(t.numbers) != g.numbers || len(t.saved) != g.saved || len(t.inputs) != g.inputs || len(t.outputs) != g.outputs {
		panic(fmt.Sprintf("tensor: operation %d has %d numbers, %d saved tensors, %d inputs and %d outputs", t.op,
			len(t.numbers), len(t.saved), len(t.inputs), len(t.outputs)))
	}
	numbers := append(t.numbers[:len(t.numbers):len(t.numbers)], 0) // one at least has an address
	problem := C.popri_step(C.int(t.op), (*C.double)(&numbers[0]), C.int(len(t.numbers)), handles(t.saved),
		C.int(len(t.saved)), handles(t.inputs), C.int(len(t.inputs)), handles(t.outputs), C.int(len(t.outputs)))
	if problem != nil {
		defer C.free(unsafe.Pointer(problem))
		refuse("record", C.GoString(problem), t.inputs[0])
	}
}

// popriBackward is called by libtorch within [Scope.Backward], on its thread. No panic may pass through libtorch.
//
//export popriBackward
func popriBackward(op C.int, numbers *C.double, saved, grads *C.tensor, wanted *C.char,
	results *C.tensor) (problem *C.char) {
	g := gradients[op]
	list := func(p *C.tensor, n int) []Tensor {
		out := make([]Tensor, n)
		for i, c := range unsafe.Slice(p, n) {
			out[i] = Tensor{c}
		}
		return out
	}
	at := Tensor{*saved}.device()
	b := backward{Scope: &Scope{device: at, threads: int(C.at_get_num_threads()),
		gpu: emulated || at != CPU && onGPU()}, saved: list(saved, g.saved), outGrads: list(grads, g.outputs)}
	for _, x := range unsafe.Slice(numbers, g.numbers) {
		b.numbers = append(b.numbers, float64(x))
	}
	for _, x := range unsafe.Slice(wanted, g.inputs) {
		b.wanted = append(b.wanted, x != 0)
	}
	defer func() {
		b.free()
		if r := recover(); r != nil {
			problem = C.CString(fmt.Sprint(r))
		}
	}()
	for i, t := range g.of(b) {
		if t.Defined() {
			unsafe.Slice(results, g.inputs)[i] = b.Keep(t).c
			live.Add(-1) // libtorch's from here
		}
	}
	return nil
}
