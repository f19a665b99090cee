package fedsim

import (
	"fmt"
	"slices"
	"strconv"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/rng"
	"popri/scoring/query"
	"popri/scoring/update"
)

// Tree releases noised sums of the nodes of a binary tree over the rounds of a pass (DP-FTRL, Kairouz et al. 2021): the
// clients take part in a shuffled order, a given number of them a round, and each once in a pass. The sums of the
// leaves so far stay in memory alone; another process computes them again from the released weights.
type Tree struct {
	Sigma float64
	// Leaf is the number of clients of a round.
	Leaf int
	// Order is the seed of the order in which the clients take part, who must be the same at the same places in all rounds
	// of a tree, or one is in two leaves: callers sort them. It need not be secret: the accounting of trees gains nothing by
	// it.
	Order uint64

	tree, leaf int    // of the last round
	nodes      []node // that make up the leaves so far
}

// node is the sum of the leaves from first on, without noise. It is private data.
type node struct {
	first int
	sum   []int64
}

// Check implements Mechanism.
func (t *Tree) Check(n int, _ ledger.Budget) []error {
	return append(checkSigma(t.Sigma), checkCohort(t.Leaf, n)...)
}

// Plan implements Mechanism.
func (t *Tree) Plan(r release.Request, n int) (*release.Release, noise.Grid, error) {
	plan, grid, err := Gaussian{Sigma: t.Sigma, Float32: true}.Plan(r, n)
	if _, ok := r.Query.(update.Question); !ok {
		return nil, grid, fmt.Errorf("%s is no question about weights, and only their sums form a tree", r.Query.Name())
	}
	at := ledger.Entry{Sampling: ledger.Tree, Cohort: t.Leaf}.At(r.Round, n)
	plan.Sampling, plan.Cohort, plan.Clients = ledger.Tree, t.Leaf, t.Leaf
	plan.Tree, plan.Leaf, plan.Leaves, plan.Order = at.Tree, at.Leaf, at.Leaves, fmt.Sprintf("%016x", t.Order)
	return plan, grid, err
}

// Length implements Mechanism.
func (t *Tree) Length(q query.Question) (least, most int) { return q.Len(), q.Len() }

// Draw implements Mechanism: the sum is of the node that the round completes.
func (t *Tree) Draw(plan *release.Release, round Round, c Clients, random Random) error {
	q := round.Query.(update.Question) // as Plan has it
	if t.tree != plan.Tree || t.leaf != plan.Leaf-1 {
		t.tree, t.leaf, t.nodes = plan.Tree, 0, nil
		for before := 1; before < plan.Leaf; before++ {
			if q.Earlier == nil {
				return fmt.Errorf("the sum of leaf %d needs the questions of earlier rounds", plan.Leaf)
			}
			earlier, err := q.Earlier(plan.Round - plan.Leaf + before)
			if err == nil {
				err = t.add(earlier, before, round, c)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := t.add(q, plan.Leaf, round, c); err != nil {
		return err
	}
	steps := slices.Clone(t.nodes[len(t.nodes)-1].sum)
	if err := noise.Add(steps, round.Grid, random("noise")); err != nil {
		return err
	}
	plan.Sum = round.Grid.Values(steps, true)
	return nil
}

// add computes a leaf's sum and joins it with the nodes that it completes.
func (t *Tree) add(q update.Question, leaf int, round Round, c Clients) error {
	round.Query, round.Cohort = q, t.members(leaf, c.N())
	sum, err := c.Sum(round)
	if err != nil {
		return err
	}
	first := accountant.NodeStart(leaf)
	for n := len(t.nodes); n > 0 && t.nodes[n-1].first >= first; n-- {
		add(sum.Steps, t.nodes[n-1].sum)
		t.nodes = t.nodes[:n-1]
	}
	t.nodes, t.leaf = append(t.nodes, node{first, sum.Steps}), leaf
	return nil
}

// members are the clients of a leaf of the tree, in ascending order.
func (t *Tree) members(leaf, n int) []int {
	order := rng.New(t.Order, "tree", strconv.Itoa(t.tree)).Perm(n)
	return slices.Sorted(slices.Values(order[(leaf-1)*t.Leaf : leaf*t.Leaf]))
}
