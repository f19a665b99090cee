package scoring

import (
	"fmt"
	"math"
	"slices"
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

// Ranking is the result of [Rank] and [RankBy].
type Ranking struct {
	Pairs      []Pair // in the order of prompts; prompts without a pair are left out
	Ranks      []int  // the rejected sample's rank of each pair, from 2
	Skipped    int    // prompts without a pair
	Duplicates int    // samples whose text occurs earlier in the same prompt
	Ties       int    // pairs with a sample that has the score of another one of the prompt, so that the index decided
}

// Rank pairs, for each prompt, the sample of rank 1 with the one of rank rejectedRank (2 to J), highest score first,
// ties to the lower index. Samples of a prompt are perPrompt (J) successive entries of scores. texts decides what is
// equal; nil means that all differ.
func Rank[T comparable](scores []float64, texts []T, perPrompt, rejectedRank int, duplicates Duplicates) (Ranking,
	error) {
	return RankBy(scores, texts, perPrompt, AgainstRank(rejectedRank), duplicates)
}

// RankBy is [Rank] with the pairs that the pairing chooses.
func RankBy[T comparable](scores []float64, texts []T, perPrompt int, pairing Pairing, duplicates Duplicates) (Ranking,
	error) {
	switch {
	case perPrompt < 2 || len(scores)%perPrompt != 0:
		return Ranking{}, fmt.Errorf("scoring: %d scores are not %d a prompt, or fewer than 2", len(scores), perPrompt)
	case texts != nil && len(texts) != len(scores):
		return Ranking{}, fmt.Errorf("scoring: %d scores for %d texts", len(scores), len(texts))
	case duplicates != ByIndex && duplicates != SkipDuplicates && duplicates != Published:
		return Ranking{}, fmt.Errorf("scoring: duplicates is %q, want %q, %q or %q", duplicates, ByIndex,
			SkipDuplicates, Published)
	}
	if err := pairing.Check(perPrompt); err != nil {
		return Ranking{}, err
	}
	for i, s := range scores {
		if math.IsNaN(s) || math.IsInf(s, 0) {
			return Ranking{}, fmt.Errorf("scoring: sample %d of prompt %d has score %g", i%perPrompt, i/perPrompt, s)
		}
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
		slices.SortStableFunc(order, func(a, b int) int {
			switch sa, sb := scores[at+a], scores[at+b]; {
			case sa > sb:
				return -1
			case sa < sb:
				return 1
			}
			return 0
		})
		ranked = ranked[:0]
		for _, i := range order {
			ranked = append(ranked, scores[at+i])
		}
		pairs := pairing.Pair(ranked)
		if len(pairs) == 0 {
			r.Skipped++
		}
		for _, p := range pairs {
			r.Pairs = append(r.Pairs, Pair{at / perPrompt, order[p[0]], order[p[1]]})
			r.Ranks = append(r.Ranks, p[1]+1)
			if tied(ranked, p[0]) || tied(ranked, p[1]) {
				r.Ties++
			}
		}
	}
	return r, nil
}

// tied reports whether a neighbour has the score of the sample at i.
func tied(ranked []float64, i int) bool {
	return i > 0 && ranked[i-1] == ranked[i] || i+1 < len(ranked) && ranked[i+1] == ranked[i]
}
