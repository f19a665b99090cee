package trainer

// Batches says which examples each update of a training uses.
type Batches interface {
	// Indices returns the indices of the examples of an update, counted from 0.
	Indices(update int) []int
	// PerEpoch is the number of updates of a pass over the examples; 0 if there is none to count.
	PerEpoch() float64
}

// Epochs goes over the examples again and again, in a new order each time.
type Epochs struct {
	Examples int
	Size     int                   // examples of a batch
	Order    func(epoch int) []int // permutation of the examples in an epoch, from 0
	// Across lets batches go over the end of an epoch. Otherwise the last batch of an epoch may be smaller.
	Across bool

	order []int
	epoch int // that order belongs to
}

// PerEpoch implements [Batches].
func (e *Epochs) PerEpoch() float64 {
	if e.Across {
		return float64(e.Examples) / float64(e.Size)
	}
	return float64(e.Updates())
}

// Updates is the number of updates of an epoch whose last batch may be smaller.
func (e *Epochs) Updates() int { return (e.Examples + e.Size - 1) / e.Size }

// Indices implements [Batches].
func (e *Epochs) Indices(update int) []int {
	from, n := update*e.Size, e.Size // counted in examples
	if !e.Across {
		at := update % e.Updates() * e.Size
		from, n = update/e.Updates()*e.Examples+at, min(e.Size, e.Examples-at)
	}
	indices := make([]int, n)
	for i := range indices {
		epoch := (from + i) / e.Examples
		if e.order == nil || epoch != e.epoch {
			e.order, e.epoch = e.Order(epoch), epoch
		}
		indices[i] = e.order[(from+i)%e.Examples]
	}
	return indices
}
