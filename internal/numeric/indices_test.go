package numeric_test

import (
	"cmp"
	"slices"
	"testing"

	"popri/internal/numeric"
)

func TestSorted(t *testing.T) {
	values := []int{3, 1, 3, 2, 1}
	got := numeric.SortedIndices(len(values), func(a, b int) int { return cmp.Compare(values[b], values[a]) })
	if want := []int{0, 2, 3, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := numeric.Indices(0); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}
