package numeric_test

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"testing"

	"popri/internal/numeric"
)

// The ends become neighbours, on both sides of the border.
func TestBetween(t *testing.T) {
	low, high := numeric.Bisect(0, 3, func(x float64) bool { return x*x < 2 })
	if low*low >= 2 || high*high < 2 || math.Nextafter(low, 3) != high {
		t.Errorf("√2 lies between %v and %v", low, high)
	}
}

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

// What is made of a list has its order.
func TestLists(t *testing.T) {
	list := []string{"a", "bcd", "ef"}
	if got := numeric.Map(list, func(s string) int { return len(s) }); !slices.Equal(got, []int{1, 3, 2}) {
		t.Errorf("the lengths are %v", got)
	}
	if got, err := numeric.TryMap([]string{"1", "2"}, strconv.Atoi); err != nil || !slices.Equal(got, []int{1, 2}) {
		t.Errorf("the numbers are %v, %v", got, err)
	}
	if got, err := numeric.TryMap([]string{"1", "a"}, strconv.Atoi); err == nil {
		t.Errorf("what is no number gives %v", got)
	}
	if got := numeric.Pick(list, []int{2, 0, 2}); !slices.Equal(got, []string{"ef", "a", "ef"}) {
		t.Errorf("picked %q", got)
	}
	if got := numeric.Tabulate(3, func(i int) int { return i * i }); !slices.Equal(got, []int{0, 1, 4}) {
		t.Errorf("the squares are %v", got)
	}
	length := func(s string) int { return len(s) }
	if sum, most := numeric.Sum(list, length), numeric.Greatest(list, length); sum != 6 || most != 3 {
		t.Errorf("the lengths add up to %d, the greatest is %d", sum, most)
	}
	if most := numeric.Greatest(nil, length); most != 0 {
		t.Errorf("the greatest length of none is %d", most)
	}
	if set := numeric.Set([]int{2, 0, 2}); len(set) != 2 || !set[0] || !set[2] {
		t.Errorf("the set is %v", set)
	}
	if some, none := numeric.Product([]int64{2, 3, 4}), numeric.Product(nil); some != 24 || none != 1 {
		t.Errorf("the products are %d and %d", some, none)
	}
	if got := numeric.Where(5, func(i int) bool { return i%2 == 1 }); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("the odd numbers are %v", got)
	}
	numbers := []float32{1, -2, float32(math.Inf(-1)), float32(math.NaN())}
	if at, none := numeric.NotFinite(numbers), numeric.NotFinite(numbers[:2]); at != 2 || none != -1 {
		t.Errorf("not finite are %d and %d", at, none)
	}
	if numeric.Finite(math.NaN()) || numeric.Finite(math.Inf(1)) || !numeric.Finite(math.MaxFloat64) {
		t.Error("what is finite is not told from what is not")
	}
	if got := numeric.Convert[float32]([]float64{0.1, -2}); !slices.Equal(got, []float32{0.1, -2}) {
		t.Errorf("converted to %v", got)
	}
}
