package accountant

import (
	"math"
	"testing"
)

// The nodes that prefixes are made of cover each leaf of the prefix once; one leaf is in PrefixSquares of them at most,
// as in the whole tree.
func TestPrefixNodes(t *testing.T) {
	for n := 1; n <= 70; n++ {
		covered := make([]int, n+1)
		for end := n; end > 0; end = NodeStart(end) - 1 {
			for l := NodeStart(end); l <= end; l++ {
				covered[l]++
			}
		}
		above, most := make([]int, n+1), 0
		for end := 1; end <= n; end++ {
			if covered[end] != 1 {
				t.Errorf("leaf %d of the first %d is covered %d times", end, n, covered[end])
			}
			for l := NodeStart(end); l <= end; l++ {
				above[l]++
				most = max(most, above[l])
			}
		}
		whole, err := Tree{Steps: n, MaxParticipation: 1}.SumSquares()
		if err != nil || most != PrefixSquares(n) || whole != most {
			t.Errorf("%d leaves: %d nodes above one, PrefixSquares %d, SumSquares %d (%v)", n, most, PrefixSquares(n),
				whole, err)
		}
	}
}

// 20 rounds of 1000 of 10 000 clients in a single tree: a client is in two leaves with 9 between them, 12 squares, for
// which σ = 2.6 keeps ε = 7 by RDP (specification of DP-FTRL).
func TestTwoContributionsToATree(t *testing.T) {
	squares, err := Tree{Steps: 20, MaxParticipation: 2, MinSeparation: 9}.SumSquares()
	if err != nil || squares != 12 {
		t.Errorf("the sum of squares is %d, want 12 (%v)", squares, err)
	}
	if got, err := (RDP{}).Epsilon([]Event{TreeEvent(2.6, squares)}, 3e-6); err != nil || math.Abs(got-6.946) > 6e-4 {
		t.Errorf("ε = %g, want 6.946 (%v)", got, err)
	}
}
