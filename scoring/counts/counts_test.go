package counts

import (
	"math"
	"slices"
	"testing"

	"popri/internal/rng"
	"popri/scoring/update"
)

// TestVector: the counts of a small case by hand. Token 9 is not asked for, and the pair around it is none.
func TestVector(t *testing.T) {
	q := Question{Tokens: []int32{2, 5, 7}, Share: .7}
	index, values := q.Vector([][]int32{{2, 5, 5, 7}, {2, 5, 9, 7}, {7}})
	// Tokens: 5 three times, 7 twice. Pairs: 2 5 twice, 5 5 and 5 7 once.
	want := map[int]float64{1: 3 * math.Sqrt(.3/13), 2: 2 * math.Sqrt(.3/13), q.Pair(0, 1): 2 * math.Sqrt(.7/6),
		q.Pair(1, 1): math.Sqrt(.7 / 6), q.Pair(1, 2): math.Sqrt(.7 / 6)}
	if len(index) != len(want) || q.Len() != 12 || q.Pair(2, 2) != 11 || !slices.IsSorted(index) {
		t.Fatalf("indices %v of %d", index, q.Len())
	}
	for i, at := range index {
		if math.Abs(values[i]-want[at]) > 1e-15 {
			t.Errorf("value %d is %g, want %g", at, values[i], want[at])
		}
	}
}

// TestNeverAboveTheBound: whatever a client's texts are, its vector is no longer than the bound.
func TestNeverAboveTheBound(t *testing.T) {
	random := rng.New(1, t.Name())
	q := Question{Tokens: make([]int32, 50), Share: .7}
	for i := range q.Tokens {
		q.Tokens[i] = int32(i)
	}
	many := make([][]int32, 3000)
	for i := range many {
		for range random.IntN(40) {
			many[i] = append(many[i], int32(math.Abs(60*random.NormFloat64())))
		}
	}
	for name, rows := range map[string][][]int32{"none": nil, "empty": {{}}, "one token": {{3}}, "one pair": {{3, 3}},
		"one token many times": {slices.Repeat([]int32{3}, 100000)}, "unknown": {{99, 98, 99}}, "thousands": many} {
		for _, share := range []float64{0, .3, .7, 1} {
			q.Share = share
			index, values := q.Vector(rows)
			if norm := update.Norm(values); norm > q.Bound() || len(values) > 0 && norm < .5 && share == .3 {
				t.Errorf("%s, share %g: norm %g", name, share, norm)
			}
			if empty := name == "none" || name == "empty" || name == "one token" || name == "unknown"; empty != (len(index) == 0) {
				t.Errorf("%s: %d values", name, len(index))
			}
		}
	}
}

// TestKey: all that decides a vector is in the name or the key.
func TestKey(t *testing.T) {
	seen := map[string]bool{}
	for _, q := range []Question{{Tokens: []int32{1, 23}, Rows: "a"}, {Tokens: []int32{12, 3}, Rows: "a"},
		{Tokens: []int32{1, 23}, Rows: "b"}, {Tokens: []int32{1, 23}, Rows: "a", Share: .5}} {
		seen[q.Name()+q.Key()] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d questions of 4 differ", len(seen))
	}
}
