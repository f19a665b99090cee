package evolution

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"popri/internal/rng"
)

func TestThreshold(t *testing.T) {
	votes := []float64{-3, 0, 1.5, 2, 2.25, 40}
	for _, c := range []struct {
		h    float64
		want []float64
	}{
		{0, []float64{0, 0, 1.5, 2, 2.25, 40}},
		{2, []float64{0, 0, 0, 0, 0.25, 38}},
		{50, []float64{0, 0, 0, 0, 0, 0}},
	} {
		if got := threshold(votes, c.h); !slices.Equal(got, c.want) {
			t.Errorf("threshold %g: %v, want %v", c.h, got, c.want)
		}
	}
	if votes[0] != -3 {
		t.Error("the votes were changed")
	}
}

// The draws are multinomial: Pearson's statistic is within the central 99.8 % of its chi-square distribution, so that
// both wrong proportions and draws that are too even fail.
func TestResampleIsProportional(t *testing.T) {
	counts := []float64{0, 1, 2.5, 0, 0.25, 7, 3, 0}
	const n, repeats = 8, 4000 // n draws a call, at most len(counts)
	drawn := make([]float64, len(counts))
	random := rng.New(3, "resample")
	for range repeats {
		s := resample(counts, n, random)
		if s.Kept || s.Len() != n {
			t.Fatalf("%+v", s)
		}
		for i, c := range s.Copies {
			drawn[i] += float64(c)
		}
	}
	total, positive, statistic := 0.0, 0, 0.0
	for _, c := range counts {
		total += c
	}
	for i, c := range counts {
		if c == 0 {
			if drawn[i] != 0 {
				t.Errorf("sample %d has no votes and was drawn %g times", i, drawn[i])
			}
			continue
		}
		positive++
		want := c / total * n * repeats
		statistic += (drawn[i] - want) * (drawn[i] - want) / want
	}
	p := distuv.ChiSquared{K: float64(positive - 1)}.CDF(statistic)
	if p < 0.001 || p > 0.999 {
		t.Errorf("chi-square is %g with %d degrees of freedom, quantile %g: drawn %v", statistic, positive-1, p, drawn)
	}
}

func TestRank(t *testing.T) {
	for _, c := range []struct {
		counts []float64
		n      int
		want   []int
	}{
		{[]float64{1, 5, 3, 5, 0}, 1, []int{1}},
		{[]float64{1, 5, 3, 5, 0}, 2, []int{1, 3}},
		{[]float64{1, 5, 3, 5, 0}, 3, []int{1, 2, 3}},
		{[]float64{0, 0, 0, 2}, 3, []int{0, 1, 3}}, // ties to the lower index
		{[]float64{4}, 1, []int{0}},
	} {
		s := rank(c.counts, c.n)
		if s.Kept || !slices.Equal(s.Indices(), c.want) {
			t.Errorf("the %d highest of %v: %v, want %v", c.n, c.counts, s.Indices(), c.want)
		}
	}
}

// Noise can push every count below the threshold. The samples that the round before selected stay.
func TestNothingAboveTheThreshold(t *testing.T) {
	counts := threshold([]float64{-1, 1, 2, 0.5}, 2)
	for _, s := range []Selection{rank(counts, 2), resample(counts, 2, rng.New(1))} {
		if !s.Kept || !slices.Equal(s.Copies, []int{1, 1, 0, 0}) || s.Survivors() != 2 {
			t.Errorf("got %+v", s)
		}
	}
}

// Whatever the counts, n samples are selected, none without votes where they are drawn, and copies add up.
func TestSelectionsOfRandomCounts(t *testing.T) {
	random := rng.New(9, "counts")
	for range 500 {
		counts := make([]float64, 1+random.IntN(40))
		for i := range counts {
			counts[i] = max(0, random.NormFloat64()) * math.Exp(20*random.NormFloat64())
		}
		n := 1 + random.IntN(len(counts))
		drawn, ranked := resample(counts, n, random), rank(counts, n)
		for _, s := range []Selection{drawn, ranked} {
			if s.Len() != n || len(s.Indices()) != n || len(s.Copies) != len(counts) || s.Survivors() > n {
				t.Fatalf("%d of %v: %+v", n, counts, s)
			}
		}
		if slices.Max(ranked.Copies) != 1 {
			t.Fatalf("a rank was taken twice: %+v", ranked)
		}
		worst := math.Inf(1)
		for i, c := range ranked.Copies {
			if c > 0 {
				worst = min(worst, counts[i])
			}
			if !drawn.Kept && drawn.Copies[i] > 0 && counts[i] == 0 {
				t.Fatalf("sample %d has no votes: %v", i, counts)
			}
		}
		for i, c := range ranked.Copies {
			if c == 0 && !ranked.Kept && counts[i] > worst {
				t.Fatalf("sample %d has more votes than a selected one: %v", i, counts)
			}
		}
	}
}
