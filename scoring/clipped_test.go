package scoring_test

import (
	"math"
	"strings"
	"testing"

	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// TestClippedCosine: the vector is the mean of cosines that are clipped on both sides. Where all cosines are at a limit, even at
// −1, it has the bound's length; a client's number of texts does not change it, and without noise samples are ordered by their mean
// clipped cosine (the oracles of ../shared/reference/newer-rivals.md, section 1).
func TestClippedCosine(t *testing.T) {
	samples := embedding.Matrix{Rows: 2, Dim: 2, Data: []float32{1, 0, 0, 1}}
	q, err := scoring.NewClippedCosine(samples, 0.5, 2, "k")
	if err != nil {
		t.Fatal(err)
	}
	texts := []float32{-1, 0, 0.6, 0.8, 0.96, 0.28, -0.6, -0.8}
	c := query.Clients{Means: query.Means{Clients: 3, Dim: 2, Data: make([]float64, 6)},
		Texts: embedding.Matrix{Rows: 4, Dim: 2, Data: texts}, Offsets: []int{0, 1, 3, 4}}
	scale := 2 / (0.5 * math.Sqrt2)
	for i, want := range [][]float64{{-0.5, 0}, {(0.5 + 0.5) / 2, (0.5 + 0.28) / 2}, {-0.5, -0.5}} {
		got, err := q.Vector(c, i)
		if err != nil {
			t.Fatal(err)
		}
		for j := range want {
			if math.Abs(got[j]-scale*want[j]) > 1e-7 {
				t.Errorf("client %d: %v, want %g times %v", i, got, scale, want)
			}
		}
	}
	if last, _ := q.Vector(c, 2); math.Abs(math.Hypot(last[0], last[1])-2) > 1e-12 {
		t.Errorf("cosines of −0.6 and −0.8 make the vector %v, of another norm than 2", last)
	}
	sum, err := q.Sum(c)
	if err != nil || !(sum[1] < sum[0]+scale*0.5) {
		t.Error(sum, err)
	}
	if got := (sum[0] / q.Scale()) + 0.5; math.Abs(got) > 1e-7 {
		t.Errorf("the sum of the first sample's mean clipped cosines is off by %g", got)
	}
	for _, most := range []float64{0, -1, 1.1, math.NaN()} {
		if _, err := scoring.NewClippedCosine(samples, most, 1, "k"); err == nil || !strings.Contains(err.Error(), "clipped") {
			t.Errorf("clipped to %g: %v", most, err)
		}
	}
}
