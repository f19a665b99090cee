package scoring_test

import (
	"fmt"
	"testing"

	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// Every query of the package, under every option, conforms; and what its name says can be asked again.
func TestQueriesConform(t *testing.T) {
	asks := map[string]makeQuery{}
	for _, n := range []scoring.Normalize{scoring.None, scoring.Standardized} {
		for _, bound := range []float64{0.3, 1, 1e6} {
			asks[fmt.Sprintf("%s at %g", scoring.CosineName(n), bound)] = func(m embedding.Matrix) (query.Query,
				error) {
				return scoring.NewCosine(m, scoring.Options{Normalize: n, Clip: bound}, "k")
			}
		}
	}
	for _, o := range []scoring.VoteOptions{
		{Metric: scoring.L2, Choices: 1, Bound: 1}, {Metric: scoring.CosineMetric, Choices: 3, Bound: 4},
		{Metric: scoring.L2, Choices: 5, PerText: true, Bound: 0.5}, {Metric: scoring.L2, Choices: 1, Bound: 1e6},
		{Metric: scoring.L2, Choices: 4, Equal: true, Bound: 2},
		{Metric: scoring.L2, Choices: 40, Equal: true, Bound: 1},
	} {
		asks[fmt.Sprintf("%s at %g", o.Name(), o.Bound)] = func(m embedding.Matrix) (query.Query, error) {
			return scoring.NewVotes(m, o, "k")
		}
	}
	asks["topics"] = func(m embedding.Matrix) (query.Query, error) {
		return scoring.Topics{Centroids: m, Key: "k"}.Question()
	}
	for _, most := range []float64{1e-3, 0.5, 1} {
		asks[scoring.ClippedCosineName(most)] = func(m embedding.Matrix) (query.Query, error) {
			return scoring.NewClippedCosine(m, most, 1.5, "k")
		}
	}
	for _, choices := range []int{1, 3, 64} {
		for _, bound := range []float64{0.5, scoring.ContrastNorm(choices), 1e6} {
			labels := make([]int32, sampleCount) // the third label has two samples
			for i := range labels {
				labels[i] = int32(i % 2)
			}
			labels[5], labels[6] = 2, 2
			asks[fmt.Sprintf("%s at %g", scoring.ContrastName(choices), bound)] = func(m embedding.Matrix) (query.Query,
				error) {
				return scoring.NewContrast(m, labels, choices, bound, "k")
			}
		}
	}
	asks["contrast without labels, with check values"] = func(m embedding.Matrix) (query.Query, error) {
		return scoring.Ask("contrast/l2/8+9", 1, m, "k")
	}
	asks["votes with check values"] = func(m embedding.Matrix) (query.Query, error) {
		return scoring.Ask("votes/l2/1/total+9", 1, m, "k")
	}
	centre := make([]float64, clientDim)
	for j := range centre {
		centre[j] = 0.1 * float64(j)
	}
	for _, o := range []scoring.MeanOptions{
		{Bound: 0.5}, {Bound: 10}, {Bound: 1, Centre: centre}, {Bound: 1, Full: true},
		{Bound: 10, Full: true, Centre: centre},
		{Bound: 1, Full: true, Centre: centre, Checks: 5},
	} {
		asks[fmt.Sprintf("mean, %+v", o)] = func(embedding.Matrix) (query.Query, error) {
			return scoring.NewMean(clientDim, o, "k")
		}
	}
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			conforms(t, ask)
			samples := embedding.NewMatrix(sampleCount, clientDim)
			q, err := ask(samples)
			if err != nil {
				t.Fatal(err)
			}
			again, err := scoring.Ask(q.Name(), q.Bound(), samples, q.Key())
			if err != nil || again.Name() != q.Name() || again.Bound() != q.Bound() || again.Len() != q.Len() {
				t.Errorf("asked again by its name: %v (%v)", again, err)
			}
		})
	}
}

func TestUnknownQueries(t *testing.T) {
	samples := embedding.NewMatrix(4, 3)
	for _, name := range []string{"", "cosine", "cosine/x", "votes/l2/1", "votes/l2/0/total", "votes/x/1/mean",
		"votes/l2/01/mean", "votes/l2/5/mean", "mean+0", "mean+", "mean/full+-1", "mean/full+01", "mean/half+1",
		"mean/full/", "mean/full/words", "mean/full/words/2/0.3", "mean/full/poly/2/0.3", "mean/words/2/0.3"} {
		if q, err := scoring.Ask(name, 1, samples, "k"); err == nil {
			t.Errorf("%q is %v", name, q)
		}
	}
	if _, err := scoring.NewMean(3, scoring.MeanOptions{Bound: 1, Centre: []float64{1}}, "k"); err == nil {
		t.Error("a centre of another length is no error")
	}
	if _, err := scoring.Ask("mean", 0, samples, "k"); err == nil {
		t.Error("a norm bound of 0 is no error")
	}
}
