package fedsim

import (
	"sync/atomic"

	"popri/scoring/query"
	"popri/scoring/update"
)

// Learner trains a model at each train client (package local). Its results are private data.
type Learner interface {
	// N is the number of train clients.
	N() int
	// Each trains the question's model at each of the given clients and hands its change to use, in any order and from
	// several goroutines, each with a worker's number below Workers. Change is used again for the next client.
	Each(q update.Question, which []int, use func(worker, client int, change []float64) error) error
	// Workers is the number of clients that are trained at once.
	Workers() int
}

// Learning are clients who answer with updates of a model's weights: a [Learner] trains the model at each client, and
// its change of the weights is clipped in float64, rounded to the grid and added up. No more than a sum for each worker
// is in memory.
type Learning struct{ Learner }

// CanAnswer implements Clients.
func (l Learning) CanAnswer(q query.Question) error { return only[update.Question](q, "weights") }

// Sum implements Clients.
func (l Learning) Sum(r Round) (Sum, error) {
	total, err := l.Rounded(r)
	return Sum{total, l.N()}, err
}

// Rounded implements Rounding. Whole numbers give the same sum in any order.
func (l Learning) Rounded(r Round) ([]int64, error) {
	q := r.Query.(update.Question)
	sums := make([][]int64, l.Workers())
	var done atomic.Int64
	err := l.Each(q, r.Cohort, func(worker, client int, change []float64) error {
		defer func() { r.tell(int(done.Add(1)), l.N()) }()
		update.Clip(change, q.Clip)
		if sums[worker] == nil {
			sums[worker] = make([]int64, len(change))
		}
		return r.Grid.AddRounded(sums[worker], change, q.Clip)
	})
	total := make([]int64, q.Len())
	for _, s := range sums {
		if s != nil {
			add(total, s)
		}
	}
	return total, err
}

func add(sum, steps []int64) {
	for i, k := range steps {
		sum[i] += k
	}
}
