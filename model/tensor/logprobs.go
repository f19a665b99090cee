package tensor

// #include "torch.h"
import "C"

import (
	"fmt"
	"unsafe"

	"popri/internal/numeric"
)

// LogProbs scores targets under the rows of logits without making a tensor of vocabulary size.
type LogProbs struct {
	Values     []float32 // log-probability of the target of each row, nats; NaN if the row is not finite
	Rank       []int32   // likelier tokens, if asked for; of equally likely ones, those with lower ids
	Entropy    []float32 // of each row's distribution, nats, if asked for
	Mean       []float32 // of each row's logits, if asked for
	normaliser []float32
	scope      *Scope
	logits     Tensor
	targets    []int32
	// Inputs of [LogProbs.Grad_] where a GPU or libtorch computes it: none with the CPU's kernels.
	logSums, ids Tensor // float32 and int64 [n, 1]
}

// NewLogProbs scores targets. logits is contiguous [n, V], float32 or bfloat16; arithmetic is float32.
// distribution asks for entropies and mean logits.
func (s *Scope) NewLogProbs(logits Tensor, targets []int32, rank, distribution bool) *LogProbs {
	shape := logits.Shape()
	d := logits.DType()
	if len(shape) != 2 || shape[0] != int64(len(targets)) || (d != Float32 && d != BFloat16) ||
		C.at_is_contiguous(logits.c) == 0 {
		refuse("NewLogProbs", fmt.Sprintf("for %d targets it must be contiguous [n, V]", len(targets)), logits)
	}
	for i, t := range targets {
		if t < 0 || int64(t) >= shape[1] {
			refuse("NewLogProbs", fmt.Sprintf("target %d of row %d is outside the vocabulary", t, i), logits)
		}
	}
	l := &LogProbs{scope: s, Values: make([]float32, len(targets)), normaliser: make([]float32, len(targets)),
		logits: logits, targets: targets}
	if rank {
		l.Rank = make([]int32, len(targets))
	}
	if distribution {
		l.Entropy, l.Mean = make([]float32, len(targets)), make([]float32, len(targets))
	}
	switch {
	case len(targets) == 0:
	case s.launches(logits):
		l.gpu()
	case !s.native("NewLogProbs", logits):
		l.portable()
	default:
		p := C.at_data_ptr(logits.c)
		s.parallel(len(targets), func(from, to int) {
			C.popri_logprobs(C.int64_t(from), C.int64_t(to), C.int(shape[1]), p, cbool(d == BFloat16), cints(targets),
				cfloats(l.Values), cfloats(l.normaliser), cints(l.Rank), cfloats(l.Entropy), cfloats(l.Mean))
		})
	}
	return l
}

// Grad_ overwrites the logits with the gradient of Σ weights[i]·Values[i] with respect to them.
func (l *LogProbs) Grad_(weights []float32) {
	if len(weights) != len(l.targets) {
		refuse("Grad_", fmt.Sprintf("%d weights for %d rows", len(weights), len(l.targets)), l.logits)
	}
	if len(weights) == 0 {
		return
	}
	if l.scope.launches(l.logits) {
		l.gpuGrad(weights)
		return
	}
	if l.logSums.Defined() {
		l.portableGrad(weights)
		return
	}
	p := unsafe.Pointer(C.at_data_ptr(l.logits.c))
	v, bf := C.int(l.logits.Size(1)), cbool(l.logits.DType() == BFloat16)
	l.scope.parallel(len(weights), func(from, to int) {
		C.popri_logprobs_grad(C.int64_t(from), C.int64_t(to), v, p, bf, cints(l.targets), cfloats(l.normaliser), cfloats(weights))
	})
}

// scores is what the kernels of a GPU take.
func (l *LogProbs) scores() C.popri_gpu_scores {
	return C.popri_gpu_scores{bf16: cbool(l.logits.DType() == BFloat16), vocab: C.int64_t(l.logits.Size(1)),
		logits: l.logits.pointer(), target: l.ids.longs(), normaliser: l.logSums.floats()}
}

// gpu is [Scope.NewLogProbs].
func (l *LogProbs) gpu() {
	s, n := l.scope, int64(len(l.targets))
	l.ids, l.logSums = s.FromInt64(numeric.Convert[int64](l.targets), n), s.Empty(Float32, n)
	s.Do(func() {
		out := s.Empty(Float32, 4, n)
		row := func(i int64) *C.float { return s.Narrow(out, 0, i, 1).floats() }
		p := l.scores()
		p.out = row(0)
		if l.Rank != nil {
			p.rank = row(1)
		}
		if l.Entropy != nil {
			p.entropy, p.mean = row(2), row(3)
		}
		launch(logProbsKernel, unsafe.Pointer(&p), n, n, l.logits.Size(1))
		all := s.Float32s(out)
		part := func(i int64) []float32 { return all[i*n : (i+1)*n] }
		copy(l.Values, part(0))
		copy(l.Entropy, part(2))
		copy(l.Mean, part(3))
		for i := range l.Rank {
			l.Rank[i] = int32(part(1)[i])
		}
	})
}

// gpuGrad is [LogProbs.Grad_].
func (l *LogProbs) gpuGrad(weights []float32) {
	s, n := l.scope, int64(len(weights))
	s.Do(func() {
		p := l.scores()
		p.weight = s.FromFloat32(weights, n).floats()
		launch(logProbsGradKernel, unsafe.Pointer(&p), n, n, l.logits.Size(1))
	})
}
