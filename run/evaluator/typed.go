package evaluator

import (
	"strings"

	"popri/eval/downstream"
	"popri/internal/rng"
)

// typedTexts is the number of texts whose beginnings a report shows with the small models' suggestions.
const typedTexts = 20

// typed returns beginnings of a source's texts, drawn by the seed, which end before a word.
func typed(src downstream.Source, seed uint64) (list []string) {
	for _, i := range rng.New(seed, "evaluate", "typed").Perm(len(src.Texts)) {
		words := strings.Fields(src.Texts[i])
		if n := min(12, 2*len(words)/3); n >= 4 && len(list) < typedTexts {
			list = append(list, strings.Join(words[:n], " ")+" ")
		}
	}
	return list
}
