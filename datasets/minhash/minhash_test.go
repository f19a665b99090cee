package minhash

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// words returns n words that no other call has.
func words(random *rand.Rand, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("w%x", random.Uint64())
	}
	return out
}

// jaccard is the definition.
func jaccard(a, b string) float64 {
	set := func(text string) map[string]bool {
		w, out := Words(text), map[string]bool{}
		for i := 0; i+shingleWords <= len(w); i++ {
			out[strings.Join(w[i:i+shingleWords], " ")] = true
		}
		return out
	}
	x, y := set(a), set(b)
	both := 0
	for s := range x {
		if y[s] {
			both++
		}
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

// pair returns two texts of 60 words, of which the first k are the same.
func pair(random *rand.Rand, k int) (string, string) {
	a := words(random, 60)
	b := append(append([]string{}, a[:k]...), words(random, 60-k)...)
	return strings.Join(a, " "), strings.Join(b, " ")
}

func TestSimilarityEstimatesJaccard(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, k := range []int{0, 10, 30, 45, 55, 60} {
		sum, want := 0.0, 0.0
		const n = 100
		for range n {
			a, b := pair(random, k)
			x, y := Sign(a), Sign(b)
			sum += x.Similarity(&y) / n
			want += jaccard(a, b) / n
		}
		if off := math.Abs(sum - want); off > 5*math.Sqrt(want*(1-want)/(n*bands*rows))+1e-9 {
			t.Errorf("%d equal words: similarity %.3f, want %.3f", k, sum, want)
		}
	}
}

func TestIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const n = 300
	found := map[int]int{}
	for _, k := range []int{30, 59} { // J = 0.30 and 0.96
		x := NewIndex()
		var queries []string
		for i := range n {
			a, b := pair(random, k)
			x.Add(Sign(a), uint8(i))
			queries = append(queries, b)
		}
		for i, q := range queries {
			if tag, ok := x.Find(Sign(q)); ok {
				found[k]++
				if tag != uint8(i) {
					t.Errorf("text %d was found as %d", i, tag)
				}
			}
		}
	}
	if found[30] != 0 || found[59] != n {
		t.Errorf("found %v of %d", found, n)
	}
}

func TestSmallDifferencesHideNothing(t *testing.T) {
	x := NewIndex()
	x.Add(Sign("The Union, as we  know it, is strong."), 7)
	x.Add(Sign("Yes!"), 8)
	x.Add(Sign("…"), 9)
	for text, want := range map[string]int{"the union as we know it is STRONG": 7, "yes": 8, "… ": 9, "no": -1, "?": -1,
		"The Union is strong.": -1} {
		tag, ok := x.Find(Sign(text))
		if ok != (want >= 0) || ok && int(tag) != want {
			t.Errorf("%q: %d %v, want %d", text, tag, ok, want)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	text, _ := pair(rand.New(rand.NewPCG(1, 1)), 0)
	for b.Loop() {
		Sign(text)
	}
}
