package scoring

import (
	"cmp"
	"fmt"
	"slices"

	"popri/internal/numeric"
)

// Duplicates says how ranking treats equal texts.
type Duplicates string

const (
	// ByIndex ranks every sample by its own score.
	ByIndex Duplicates = "index"
	// SkipDuplicates ranks only the first occurrence of each text within a prompt; a prompt with fewer texts than the
	// rejected rank gives no pair.
	SkipDuplicates Duplicates = "skip_duplicates"
	// Published gives every sample the score of the first equal text of all prompts, as looking scores up by text does.
	Published Duplicates = "published"
)

// Pair is a preference within one prompt. Chosen and Rejected count from 0 to J−1.
type Pair struct{ Prompt, Chosen, Rejected int }

// Ranking is the result of [Rank].
type Ranking struct {
	Pairs      []Pair // in the order of prompts; prompts without a pair are left out
	Skipped    int    // prompts without a pair
	Duplicates int    // samples whose text occurs earlier in the same prompt
	Ties       int    // pairs with a sample that has the score of another one of the prompt, so that the index decided
}

// Rank pairs, for each prompt, the sample of rank 1 with the one of rank rejectedRank (2 to J), highest score first,
// ties to the lower index. Samples of a prompt are perPrompt (J) successive entries of scores. texts decides what is
// equal; nil means that all differ.
func Rank[T comparable](scores []float64, texts []T, perPrompt, rejectedRank int, duplicates Duplicates) (Ranking, error) {
	switch {
	case perPrompt < 2 || len(scores)%perPrompt != 0:
		return Ranking{}, fmt.Errorf("scoring: %d scores are not %d a prompt, or fewer than 2", len(scores), perPrompt)
	case texts != nil && len(texts) != len(scores):
		return Ranking{}, fmt.Errorf("scoring: %d scores for %d texts", len(scores), len(texts))
	case duplicates != ByIndex && duplicates != SkipDuplicates && duplicates != Published:
		return Ranking{}, fmt.Errorf("scoring: duplicates is %q, want %q, %q or %q", duplicates, ByIndex,
			SkipDuplicates, Published)
	case rejectedRank < 2 || rejectedRank > perPrompt:
		return Ranking{}, fmt.Errorf("scoring: rejected rank %d, want 2 to the %d samples of a prompt", rejectedRank, perPrompt)
	}
	if i := numeric.NotFinite(scores); i >= 0 {
		return Ranking{}, fmt.Errorf("scoring: sample %d of prompt %d has score %g", i%perPrompt, i/perPrompt,
			scores[i])
	}
	if texts != nil && duplicates == Published {
		first := map[T]float64{}
		looked := slices.Clone(scores)
		for i, t := range texts {
			if s, ok := first[t]; ok {
				looked[i] = s
			} else {
				first[t] = scores[i]
			}
		}
		scores = looked
	}
	var r Ranking
	order, ranked := make([]int, 0, perPrompt), make([]float64, 0, perPrompt)
	for at := 0; at < len(scores); at += perPrompt {
		order = order[:0]
		for i := at; i < at+perPrompt; i++ {
			repeated := texts != nil && slices.Contains(texts[at:i], texts[i])
			if repeated {
				r.Duplicates++
			}
			if !repeated || duplicates != SkipDuplicates {
				order = append(order, i-at)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[at+b], scores[at+a]) })
		ranked = ranked[:0]
		for _, i := range order {
			ranked = append(ranked, scores[at+i])
		}
		last := rejectedRank - 1
		if len(ranked) <= last {
			r.Skipped++
			continue
		}
		r.Pairs = append(r.Pairs, Pair{at / perPrompt, order[0], order[last]})
		if tied(ranked, 0) || tied(ranked, last) {
			r.Ties++
		}
	}
	return r, nil
}

// tied reports whether a neighbour has the score of the sample at i.
func tied(ranked []float64, i int) bool {
	return i > 0 && ranked[i-1] == ranked[i] || i+1 < len(ranked) && ranked[i+1] == ranked[i]
}

// Recovered measures how much a noised sum still says of the true one, as fractions of pairs: "pairs" of the true sum that
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
