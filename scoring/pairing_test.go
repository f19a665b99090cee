package scoring

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// Every pairing gives pairs of different places within the ranking, the chosen one no worse, and nothing where there is
// nothing to compare.
func TestPairings(t *testing.T) {
	r := random()
	for name, p := range map[string]Pairing{
		"rank": AgainstRank(3), "all": AgainstAll{}, "worst": AgainstWorst{}, "random": AgainstRandom{random()},
		"margin": WithMargin{AgainstAll{}, 0.2},
	} {
		if err := p.Check(4); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, ranked := range [][]float64{nil, {1}} {
			if got := p.Pair(ranked); len(got) > 0 {
				t.Errorf("%s makes %v of %v", name, got, ranked)
			}
		}
		pairs := 0
		for range 200 {
			ranked := make([]float64, 2+r.IntN(6))
			for i := range ranked {
				ranked[i] = r.Float64()
				if i > 0 {
					ranked[i] = ranked[i-1] - ranked[i]*0.2
				}
			}
			for _, x := range p.Pair(ranked) {
				pairs++
				if x[0] < 0 || x[1] >= len(ranked) || x[0] >= x[1] || ranked[x[0]] < ranked[x[1]] {
					t.Errorf("%s makes %v of %v", name, x, ranked)
				}
			}
		}
		if pairs < 100 {
			t.Errorf("%s made %d pairs of 200 prompts", name, pairs)
		}
	}
}

func TestPairingChoices(t *testing.T) {
	ranked := []float64{5, 4, 4, 1}
	for _, c := range []struct {
		p    Pairing
		want [][2]int
	}{
		{AgainstRank(2), [][2]int{{0, 1}}},
		{AgainstRank(4), [][2]int{{0, 3}}},
		{AgainstRank(5), nil},
		{AgainstAll{}, [][2]int{{0, 1}, {0, 2}, {0, 3}}},
		{AgainstWorst{}, [][2]int{{0, 3}}},
		{WithMargin{AgainstAll{}, 1}, [][2]int{{0, 1}, {0, 2}, {0, 3}}},
		{WithMargin{AgainstAll{}, 1.5}, [][2]int{{0, 3}}},
		{WithMargin{AgainstRank(2), 1.5}, nil},
	} {
		if got := c.p.Pair(ranked); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%T %v gives %v, want %v", c.p, c.p, got, c.want)
		}
	}
	// Each other sample is drawn about as often.
	p, counts := AgainstRandom{random()}, [4]int{}
	for range 3000 {
		counts[p.Pair(ranked)[0][1]]++
	}
	if counts[0] != 0 || min(counts[1], counts[2], counts[3]) < 900 {
		t.Errorf("drawn %v times", counts)
	}
	for _, c := range []struct {
		p    Pairing
		want string
	}{
		{AgainstRank(1), "rank 1"}, {AgainstRank(5), "rank 5"}, {AgainstRandom{}, "source"},
		{WithMargin{AgainstAll{}, -1}, "-1"}, {WithMargin{AgainstAll{}, math.NaN()}, "NaN"},
		{WithMargin{AgainstRank(9), 1}, "rank 9"},
	} {
		if _, err := RankBy[string]([]float64{1, 2, 3, 4}, nil, 4, c.p, ByIndex); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%T %v gives %v", c.p, c.p, err)
		}
	}
}

func TestRankByCounts(t *testing.T) {
	scores := []float64{
		3, 3, 1, 0, // a tie at the top
		4, 2, 2, 2, // and one among the others
		9, 8, 7, 6, // none
		1, 1, 1, 1, // two alike, which are one sample
	}
	texts := []string{"a", "b", "c", "d", "a", "b", "c", "d", "a", "b", "c", "d", "a", "b", "a", "c"}
	r, err := RankBy(scores, texts, 4, AgainstRank(2), SkipDuplicates)
	want := Ranking{Pairs: []Pair{{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {3, 0, 1}}, Ranks: []int{2, 2, 2, 2}, Duplicates: 1,
		Ties: 3}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("%v: %+v, want %+v", err, r, want)
	}
	r, err = RankBy(scores, texts, 4, WithMargin{AgainstWorst{}, 2.5}, SkipDuplicates)
	want = Ranking{Pairs: []Pair{{0, 0, 3}, {2, 0, 3}}, Ranks: []int{4, 4}, Skipped: 2, Duplicates: 1, Ties: 1}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("%v: %+v, want %+v", err, r, want)
	}
	if got, want := Spread([]float64{1, 3, 10, 10}, 2), math.Sqrt(0.5); math.Abs(got-want) > 1e-15 {
		t.Errorf("the spread is %g, want %g", got, want)
	}
	if got := Spread(nil, 2); got != 0 {
		t.Errorf("the spread of nothing is %g", got)
	}
}
