package scoring

import "slices"

// Recovered measures how much a noised sum still says of the true one, as shares of pairs: "pairs" of the true sum that
// the noised one gives too, "chosen" samples that are the same, and pairs of the noised sum that are "ordered" as the
// true scores are. denoise is applied to both. The result is private: it is for diagnostics that the user calls unsafe.
func Recovered(truth, noised []float64, denoise func([]float64) ([]float64, error),
	perPrompt, rank int) (map[string]float64, error) {
	pairs := func(sum []float64) ([]Pair, error) {
		scores, err := denoise(sum)
		if err != nil {
			return nil, err
		}
		r, err := Rank[string](scores, nil, perPrompt, rank, ByIndex)
		return r.Pairs, err
	}
	want, err := pairs(truth)
	if err != nil {
		return nil, err
	}
	got, err := pairs(noised)
	if err != nil {
		return nil, err
	}
	return map[string]float64{
		"pairs": share(want, func(p Pair) bool { return slices.Contains(got, p) }),
		"chosen": share(want, func(p Pair) bool {
			return slices.ContainsFunc(got, func(g Pair) bool { return g.Prompt == p.Prompt && g.Chosen == p.Chosen })
		}),
		"ordered": share(got, func(p Pair) bool {
			at := p.Prompt * perPrompt
			return truth[at+p.Chosen] > truth[at+p.Rejected]
		}),
	}, nil
}

// share is the part of pairs for which holds is true; 0 without pairs.
func share(pairs []Pair, holds func(Pair) bool) float64 {
	n := 0
	for _, p := range pairs {
		if holds(p) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(pairs)))
}
