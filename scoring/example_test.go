package scoring_test

import (
	"fmt"

	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// Two clients score three samples by cosine, each with a vector of norm 1 at most. The sum is private until noise is
// added (package fedsim does both). It ranks the samples of a prompt.
func Example() {
	samples := scoring.Unit(embedding.Matrix{Rows: 3, Dim: 2, Data: []float32{1, 0, 1, 1, 0, 1}})
	texts := scoring.Unit(embedding.Matrix{Rows: 3, Dim: 2, Data: []float32{2, 1, 1, 0, 3, 1}})
	clients, err := query.MeanEmbeddings(texts, []int{0, 2, 3}) // texts 0 and 1 are the first client's
	if err != nil {
		panic(err)
	}
	question, err := scoring.NewCosine(samples, scoring.Options{Normalize: scoring.None, Clip: 1}, "samples of round 1")
	if err != nil {
		panic(err)
	}
	sum, err := question.Sum(query.Clients{Means: clients})
	if err != nil {
		panic(err)
	}
	pairs, err := scoring.Rank(sum, []string{"one", "two", "three"}, 3, 3, scoring.SkipDuplicates)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.2f\n", sum)
	fmt.Printf("sample %d is preferred to sample %d\n", pairs.Pairs[0].Chosen, pairs.Pairs[0].Rejected)
	// Output:
	// [1.45 1.31 0.41]
	// sample 0 is preferred to sample 2
}
