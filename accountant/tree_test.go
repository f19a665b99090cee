package accountant

import "testing"

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
