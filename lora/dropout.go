package lora

import (
	"hash/fnv"
	"math/rand/v2"

	"popri/model/lm"
	"popri/model/tensor"
)

// Training returns the adapter as it works in a training pass: with dropout, if the configuration has it. rows are the
// seeds of the pass's rows. A mask follows from the row's seed and the projection's name, so that it does not depend on
// the threads, nor on how an update is divided into passes, and a block that is computed again gets the same one.
func (a *Adapter) Training(rows []uint64) lm.Adapter {
	if a.Config.Dropout == 0 {
		return a
	}
	return &dropping{a, rows}
}

// dropping is an adapter with dropout of its inputs: y + s·B·(A·drop(x)), as PEFT's lora_dropout. The
// projection itself sees all of them, but for what DoRA adds to it.
type dropping struct {
	*Adapter
	rows []uint64
}

// DependsOnRow says that the mask of a token follows from its position in the batch.
func (d *dropping) DependsOnRow() {}

// Factors says that each projection sees another input.
func (d *dropping) Factors(*tensor.Scope, []*lm.Linear) (l tensor.LowRank, ok bool) { return l, false }

// Apply implements [lm.Adapter].
func (d *dropping) Apply(s *tensor.Scope, module string, x, y tensor.Tensor) tensor.Tensor {
	p := d.Modules[module]
	if p == nil {
		return y
	}
	h := fnv.New64a()
	h.Write([]byte(module))
	keys := make([]uint64, len(d.rows))
	for i, seed := range d.rows {
		keys[i] = rand.NewPCG(seed, h.Sum64()).Uint64()
	}
	x = s.Drop(x, d.Config.Dropout, keys...)
	if p.M.Defined() {
		return p.scaled(s, p.linear.Product(s, x), p.change(s, x), y)
	}
	return s.Add(y, p.change(s, x))
}
