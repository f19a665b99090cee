package fedsim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/aggregate"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/rng"
	"popri/scoring/update"
)

// Learner trains a model at each train client (package local). Its results are private data.
type Learner interface {
	// Clients is the number of train clients.
	Clients() int
	// Each trains the question's model at each of the given clients and hands its change to use, in any order and from
	// several goroutines, each with a worker's number below Workers. Change is used again for the next client.
	Each(q update.Question, which []int, use func(worker, client int, change []float64) error) error
	// Workers is the number of clients that are trained at once.
	Workers() int
}

// NewLearning makes a federation of train clients who answer with updates of a model's weights. Clipping, rounding to
// the grid, sum, noise, charge and the states of a release are those of this package; only the training is the
// learner's.
func NewLearning(learner Learner, config Config) (*Federation, error) {
	if config.Sampling == "" {
		config.Sampling = ledger.Full
	}
	err := config.validate(learner.Clients())
	if config.Least > 0 || config.UnsafeDiagnostics != nil {
		err = errors.Join(err,
			errors.New("fedsim: model updates go through no two aggregators, and there are no diagnostics of them"))
	}
	if err != nil {
		return nil, err
	}
	return &Federation{config: config, train: learner.Clients(), learner: learner}, nil
}

// prefix is the state of a tree: the sums of the nodes that make up the first leaves, without noise. It is private
// data, and stays in memory: another process computes it again from the released weights.
type prefix struct {
	tree, leaf int
	nodes      []node
}

// node is the sum of the leaves from first on.
type node struct {
	first int
	sum   []int64
}

// members are the clients of a leaf, in ascending order. The order of a pass follows from the seed and need not be
// secret: the accounting of trees gains nothing by it.
func (c Config) members(tree, leaf, train int) []int {
	order := rng.New(c.Order, "tree", strconv.Itoa(tree)).Perm(train)
	return slices.Sorted(slices.Values(order[(leaf-1)*c.Cohort : leaf*c.Cohort]))
}

// updates is the exact sum of the round's clipped updates in steps of the grid or, under [ledger.Tree], that of the
// node that the round completes.
func (f *Federation) updates(r release.Request, q update.Question, grid noise.Grid, answer *release.Release) ([]int64,
	error) {
	c := f.config
	if c.Sampling != ledger.Tree {
		return f.updatesOf(q, c.cohort(source(c.InsecureSeed, "cohort", r), f.train), grid)
	}
	tree, leaf := answer.Tree, answer.Leaf
	if f.prefix.tree != tree || f.prefix.leaf != leaf-1 {
		f.prefix = prefix{tree: tree}
		for before := 1; before < leaf; before++ {
			if q.Earlier == nil {
				return nil, fmt.Errorf("the sum of leaf %d needs the questions of earlier rounds", leaf)
			}
			earlier, err := q.Earlier(r.Round - leaf + before)
			if err != nil {
				return nil, err
			}
			if err := f.add(earlier, tree, before, grid); err != nil {
				return nil, err
			}
		}
	}
	if err := f.add(q, tree, leaf, grid); err != nil {
		return nil, err
	}
	return slices.Clone(f.prefix.nodes[len(f.prefix.nodes)-1].sum), nil
}

// add computes a leaf's sum and joins it with the nodes that it completes.
func (f *Federation) add(q update.Question, tree, leaf int, grid noise.Grid) error {
	sum, err := f.updatesOf(q, f.config.members(tree, leaf, f.train), grid)
	if err != nil {
		return err
	}
	p, first := &f.prefix, accountant.NodeStart(leaf)
	for n := len(p.nodes); n > 0 && p.nodes[n-1].first >= first; n-- {
		add(sum, p.nodes[n-1].sum)
		p.nodes = p.nodes[:n-1]
	}
	p.nodes, p.leaf = append(p.nodes, node{first, sum}), leaf
	return nil
}

// updatesOf adds up clients' updates as they come: a sum a worker is all that is in memory. Whole numbers give the same
// sum in any order.
func (f *Federation) updatesOf(q update.Question, which []int, grid noise.Grid) ([]int64, error) {
	sums := make([][]int64, f.learner.Workers())
	err := f.learner.Each(q, which, func(worker, client int, change []float64) error {
		update.Clip(change, q.Clip)
		if sums[worker] == nil {
			sums[worker] = make([]int64, len(change))
		}
		return aggregate.AddRounded(sums[worker], change, q.Clip, grid)
	})
	total := make([]int64, q.Len())
	for _, s := range sums {
		if s != nil {
			add(total, s)
		}
	}
	return total, err
}
