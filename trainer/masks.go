package trainer

import (
	"strconv"

	"popri/internal/rng"
	"popri/model/lm"
)

// masked is an adapter that hides a part of its inputs in training.
type masked interface {
	// Training returns the adapter for a training pass over rows with these seeds.
	Training(rows []uint64) lm.Adapter
}

// InTraining returns an adapter as it works in a training pass: with masks, if it has dropout. They follow from the
// seed, the number of the next update and the rows' indices in it, so that neither threads, nor passes, nor
// interruptions change them.
func (o *Optimizer) InTraining(a lm.Adapter, seed uint64, indices []int) lm.Adapter {
	m, ok := a.(masked)
	if !ok {
		return a
	}
	rows := make([]uint64, len(indices))
	for i, index := range indices {
		rows[i] = rng.Seed(seed, strconv.Itoa(o.Done.Steps+1), strconv.Itoa(index))
	}
	return m.Training(rows)
}
