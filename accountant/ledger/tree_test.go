package ledger

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"popri/accountant"
	"popri/internal/rng"
)

func leaf(round int, b Budget, sigma float64, cohort int) Entry {
	e := Entry{Sigma: sigma, Sensitivity: 1, Sampling: Tree, Cohort: cohort, Clients: cohort,
		ReleaseHash: fmt.Sprintf("%064x", round)}
	return e.At(round, b.Clients)
}

// A ledger of whole trees spends what account tree says: 20 passes of n leaves have 20·(⌊log2 n⌋ + 1) squares. The
// figures, exact and by RDP, are from the specification's table (DP-FTRL's noise in Table 3 of the paper), which other
// code computed.
func TestTreesSpendWhatTheTableSays(t *testing.T) {
	for _, c := range []struct {
		clients, cohort  int
		sigma, want, rdp float64
	}{
		{10000, 7500, 3.35, 6.499, 6.962}, {10000, 10000, 19.5, .909, .986}, {2000, 1000, 4.8, 6.401, 6.857},
		{2000, 1000, 28, .894, .971}, {4000, 1000, 5.8, 6.502, 6.965}, {10000, 2000, 34, .903, .979},
		{10000, 1000, 6.7, 6.499, 6.962}, {10000, 1000, 39, .909, .986}, {10000, 500, 7.5, 6.490, 6.952},
		{10000, 500, 43, .923, 1.001}, {17000, 1000, 44, .900, .977}, {72000, 1000, 8.9, 6.468, 6.929},
		{72000, 1000, 52, .902, .978}, {133000, 1000, 9.5, 6.480, 6.941}, {133000, 1000, 55, .912, .989},
	} {
		b := budget()
		b.Clients, b.Delta, b.Epsilon = c.clients, 3e-6, math.Inf(1)
		n := c.clients / c.cohort
		var entries []Entry
		for round := range 20 * n {
			entries = append(entries, leaf(round+1, b, c.sigma, c.cohort))
		}
		spent, err := Spent(b, entries)
		if err != nil || math.Abs(spent-c.want) > 6e-4 {
			t.Errorf("%d leaves, sigma %g: %g, want %g (%v)", n, c.sigma, spent, c.want, err)
		}
		squares, err := accountant.Tree{Steps: n, MaxParticipation: 1}.SumSquares()
		if err != nil {
			t.Fatal(err)
		}
		trees := []accountant.Event{accountant.TreeEvent(c.sigma, 20*squares)}
		exact, err := accountant.Exact{}.Epsilon(trees, 3e-6)
		if err != nil || math.Abs(exact-spent) > 1e-9 {
			t.Errorf("account tree says %g, the ledger %g (%v)", exact, spent, err)
		}
		rdp, err := accountant.RDP{}.Epsilon(trees, 3e-6)
		if err != nil || math.Abs(rdp-c.rdp) > 6e-4 {
			t.Errorf("%d leaves, sigma %g: by RDP %g, want %g (%v)", n, c.sigma, rdp, c.rdp, err)
		}
	}
}

// What a charge counts follows from counting nodes above each leaf, also where leaves were lost and released again.
func TestTreeCountsAgreeWithEnumeration(t *testing.T) {
	random := rng.New(1, t.Name())
	for range 200 {
		leaves := 1 + random.IntN(40)
		b := budget()
		b.Clients = leaves * 3
		var entries []Entry
		want, total, above := 0, 0, make([]int, leaves+1)
		for at := 1; at <= 2*leaves; at++ {
			for again := 0; again == 0 || random.IntN(6) == 0; again++ {
				e := leaf(at, b, 1, 3)
				if e.Leaf == 1 && again == 0 {
					total, want, above = total+want, 0, make([]int, leaves+1)
				}
				entries = append(entries, e)
				for size := 1; size <= leaves; size *= 2 { // the node that ends at the leaf and begins at a multiple of twice its size
					if first := e.Leaf - size; first >= 0 && first%(2*size) == 0 {
						for l := first + 1; l <= e.Leaf; l++ {
							above[l]++
							want = max(want, above[l])
						}
					}
				}
			}
		}
		got := 0
		for _, n := range releases(entries) {
			got += n
		}
		if got != total+want {
			t.Fatalf("%d leaves: %d releases, want %d", leaves, got, total+want)
		}
	}
}

// Copies of a run that was interrupted within a tree, each of which went on, release a node of one leaf several times:
// together they spend what that many releases do. Trees that begin with different charges have their clients in other
// leaves, so they add up.
func TestForkedTreesAddUp(t *testing.T) {
	b := budget()
	b.Clients, b.Data, b.Epsilon = 1000, "data", math.Inf(1)
	again := func(round, copied int) Entry { // the leaf of a copy
		e := leaf(round, b, 4, 250)
		e.ReleaseHash = fmt.Sprintf("%064x", 1000*copied+round)
		return e
	}
	common := []Entry{leaf(1, b, 4, 250), leaf(2, b, 4, 250)}
	for _, c := range []struct {
		name    string
		copies  int
		entries func(copied int) []Entry
		want    int // releases
	}{
		{"one", 1, func(k int) []Entry { return append(common[:2:2], again(3, k)) }, 2},
		{"two", 2, func(k int) []Entry { return append(common[:2:2], again(3, k)) }, 2},
		{"six", 6, func(k int) []Entry { return append(common[:2:2], again(3, k)) }, 6},
		{"six to the end", 6, func(k int) []Entry { return append(common[:2:2], again(3, k), again(4, k)) }, 12},
		{"six that begin another tree", 6, func(k int) []Entry {
			return append(common[:2:2], again(3, k), again(4, k), again(5, k))
		}, 18},
		{"no copies", 3, func(k int) []Entry { return []Entry{again(1, k), again(2, k)} }, 6},
	} {
		var records []Record
		for k := range c.copies {
			records = append(records, Record{Budget: b, Entries: c.entries(k + 1)})
		}
		composed, err := Compose(records)
		if err != nil || len(composed) != 1 {
			t.Fatal(composed, err)
		}
		want, err := accountant.Exact{}.Epsilon([]accountant.Event{accountant.TreeEvent(4, c.want)}, b.Delta)
		if err != nil || math.Abs(composed[0].Epsilon-want) > 1e-9 {
			t.Errorf("%s: ε = %g, want %g of %d releases (%v)", c.name, composed[0].Epsilon, want, c.want, err)
		}
	}
}

// Less noise within a tree does not come for nothing: nodes with it count as another tree.
func TestTreeWithOtherNoise(t *testing.T) {
	b := budget()
	b.Clients, b.Data, b.Epsilon = 1000, "data", math.Inf(1)
	spent, err := Spent(b, []Entry{leaf(1, b, 10, 250), leaf(2, b, 10, 250), leaf(3, b, 0.5, 250)})
	alone, errAlone := accountant.Exact{}.Epsilon([]accountant.Event{accountant.TreeEvent(0.5, 1)}, b.Delta)
	if err != nil || errAlone != nil || spent < alone {
		t.Errorf("ε = %g, one release with the least noise %g (%v, %v)", spent, alone, err, errAlone)
	}
}

// Leaves of clients in another order are of another tree, whatever their numbers are: a client may be in both.
func TestTreesOfTwoOrders(t *testing.T) {
	b := budget()
	b.Clients, b.Data = 1000, "data"
	entries := []Entry{leaf(1, b, 10, 250), leaf(2, b, 10, 250), leaf(3, b, 10, 250), leaf(3, b, 10, 250)}
	for i := range entries[1:] {
		entries[i+1].Order = "another seed's"
	}
	if got := releases(entries); !slices.Equal(got, []int{1, 1, 0, 1}) { // 1 of the first tree, 2 of leaf 3 of the second
		t.Errorf("the charges count as %v releases", got)
	}
}

// A leaf out of its order, or more leaves than the clients fill, would let a client join a second one.
func TestSecondLeafIsRefused(t *testing.T) {
	b := budget()
	b.Epsilon = math.Inf(1)
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l := created(t, path, b)
	defer func() { l.Close() }()
	for _, round := range []int{1, 2, 2, 3, 4, 5} { // 250 clients a leaf: round 5 begins tree 2
		if err := l.Charge(leaf(round, b, 10, 250)); err != nil {
			t.Fatal(err)
		}
	}
	other := leaf(6, b, 10, 250)
	other.Cohort, other.Clients = 200, 200
	many := leaf(6, b, 10, 250)
	many.Leaves = 5
	late := leaf(6, b, 10, 250)
	late.Tree = 1
	shuffled := leaf(6, b, 10, 250)
	shuffled.Order = "another seed"
	for _, e := range []Entry{leaf(4, b, 10, 250), leaf(7, b, 10, 250), other, many, late, shuffled} {
		if err := l.Charge(e); !errors.Is(err, errSecondLeaf) {
			t.Errorf("leaf %d of %d of tree %d with %d clients: %v", e.Leaf, e.Leaves, e.Tree, e.Cohort, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if l, err = Open(path); err != nil || len(l.Entries()) != 6 {
		t.Fatalf("opened anew: %v", err)
	}
	spent, err := l.Spent()
	want, _ := accountant.Exact{}.Epsilon([]accountant.Event{accountant.TreeEvent(10, 3+1+1)}, b.Delta) // leaf 2 was released twice
	if err != nil || math.Abs(spent-want) > 1e-9 {
		t.Errorf("spent %g, want %g (%v)", spent, want, err)
	}
	plain := charge(6, 10)
	plain.Leaf = 1
	if err := l.Charge(plain); err == nil {
		t.Error("a leaf outside of a tree is taken")
	}
}
