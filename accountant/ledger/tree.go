package ledger

import (
	"errors"
	"fmt"

	"popri/accountant"
	"popri/internal/numeric"
)

// errSecondLeaf marks a charge by which a client could take part in a second leaf of a tree. Nothing was written.
var errSecondLeaf = errors.New("a client may take part in one leaf of a tree")

// At completes the charge of a round as the plan of its sampling has it for the clients. Under [Tree], a pass over the
// clients is a tree of as many leaves as cohorts of this size have clients, and the next pass begins another tree.
func (e Entry) At(round, clients int) Entry {
	e.Round = round
	if e.Sampling == Tree && e.Cohort > 0 {
		e.Leaves = max(1, clients/e.Cohort)
		e.Tree, e.Leaf = (round-1)/e.Leaves+1, (round-1)%e.Leaves+1
	}
	return e
}

// validateTree checks a charge's position in a tree. Only under [Tree] it has one.
func (e Entry) validateTree(b Budget) error {
	fail := func(format string, args ...any) error { return fmt.Errorf("ledger: charge for "+format, args...) }
	switch {
	case e.Sampling != Tree && (e.Tree != 0 || e.Leaf != 0 || e.Leaves != 0):
		return fail("leaf %d of %d of tree %d under the sampling %q", e.Leaf, e.Leaves, e.Tree, e.Sampling)
	case e.Sampling != Tree:
		return nil
	case e.SamplingRate != 0 || e.Cohort < 1:
		return fail("a leaf of %d clients at rate %g", e.Cohort, e.SamplingRate)
	case e.Tree < 1 || e.Leaf < 1 || e.Leaf > e.Leaves || e.Leaves > accountant.MostLeaves:
		return fail("leaf %d of %d of tree %d", e.Leaf, e.Leaves, e.Tree)
	case e.Leaves > b.Clients/e.Cohort:
		return fmt.Errorf("ledger: charge for %d leaves of %d clients each, and there are %d: %w", e.Leaves, e.Cohort,
			b.Clients, errSecondLeaf)
	}
	return nil
}

// follows refuses a leaf that is out of its order. The leaves of a tree are charged one after another, or one again
// that was lost; a tree that was left for the next one takes no further leaf. So each client has its one leaf.
func (e Entry) follows(entries []Entry) error {
	if e.Sampling != Tree {
		return nil
	}
	last := Entry{}
	for _, before := range entries {
		if before.Sampling == Tree && before.Inherited == e.Inherited {
			last = before
		}
	}
	again, next := e.Leaf == last.Leaf, e.Leaf == last.Leaf+1
	switch {
	case e.Inherited && e.Leaf == 1: // a ledger that continues a ledger has the trees of both
	case e.Tree == last.Tree && (again || next) && e.Leaves == last.Leaves && e.Cohort == last.Cohort:
		if e.Order != last.Order {
			return fmt.Errorf("ledger: charge for leaf %d of tree %d, whose earlier leaves have clients of another order "+
				"(another seed, or an earlier version of popri): %w", e.Leaf, e.Tree, errSecondLeaf)
		}
	case e.Tree == last.Tree+1 && e.Leaf == 1:
	default:
		return fmt.Errorf("ledger: charge for leaf %d of tree %d (%d leaves of %d clients) after leaf %d of tree %d (%d of "+
			"%d): %w", e.Leaf, e.Tree, e.Leaves, e.Cohort, last.Leaf, last.Tree, last.Leaves, last.Cohort, errSecondLeaf)
	}
	return nil
}

// Releases is the number of Gaussian releases that rounds planned as e count as: each of them, or under [Tree] fewer.
func Releases(e Entry, rounds int, b Budget) int {
	planned := numeric.Tabulate(rounds, func(i int) Entry { return e.At(i+1, b.Clients) })
	total := 0
	for _, n := range releases(planned) {
		total += n
	}
	return total
}

// releases is by how many Gaussian releases each charge counts. A sum of clients is one. The nodes of a tree count
// together as the most of them that one leaf is in: a client's updates are in the nodes above its one leaf, each of
// which has noise of its own, so that a charge costs only what it adds to that number.
func releases(entries []Entry) []int {
	counts := make([]int, len(entries))
	var tree nodes
	last := Entry{}
	for i, e := range entries {
		if e.begins(last) {
			tree = nodes{}
		}
		last, counts[i] = e, tree.add(e)
	}
	return counts
}

// begins reports whether a charge is the first one of a tree, given the charge before it in its ledger. With other noise, a
// tree counts as another one from there on: what its nodes cost so far says nothing of those with less noise.
func (e Entry) begins(last Entry) bool {
	return e.Sampling == Tree && (last.Sampling != Tree || e.Tree != last.Tree || e.Leaf < last.Leaf ||
		e.Leaves != last.Leaves || e.Order != last.Order || e.Sigma != last.Sigma || e.Inherited != last.Inherited)
}

// nodes counts the charged nodes of a tree.
type nodes struct {
	above []int // each leaf
	most  int   // of them
}

// add counts a charge and returns by how many releases it costs more.
func (n *nodes) add(e Entry) int {
	if e.Sampling != Tree {
		return 1
	}
	if n.above == nil {
		n.above = make([]int, e.Leaves)
	}
	before := n.most
	for leaf := accountant.NodeStart(e.Leaf); leaf <= e.Leaf; leaf++ {
		n.above[leaf-1]++
		n.most = max(n.most, n.above[leaf-1])
	}
	return n.most - before
}
