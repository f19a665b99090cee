package scoring

import (
	"fmt"
	"slices"

	"popri/internal/numeric"
)

// Level is one way in which texts belong together, such as by document or by folder.
type Level struct {
	// Groups has the group of each text. "" means no group: such a text is alone.
	Groups []string
	// Weight is the weight of the mean score of a text's group, relative to the text's own score.
	Weight float64
	// Prior is the number of texts of score zero that a group's mean is shrunk by, so that small groups have little
	// influence.
	Prior float64
}

// Relevance says how relevant public texts are, from a noisy score of each and from the texts that they belong with:
//
//	r_i = s_i + Σ_levels weight · Σ_{j in i's group} s_j / (n_group + prior)
//
// with s standardised to mean 0 and deviation 1. One text's embedding says little about its domain; a document's texts
// are of one domain, and their mean says much. Groups are public, so this is post-processing. Scores that are all equal
// give zeros.
func Relevance(scores []float64, levels ...Level) ([]float64, error) {
	if i := numeric.NotFinite(scores); i >= 0 {
		return nil, fmt.Errorf("scoring: text %d has score %g", i, scores[i])
	}
	s := slices.Clone(scores)
	if !standardize(s) {
		return s, nil
	}
	out := slices.Clone(s)
	for _, l := range levels {
		if len(l.Groups) != len(s) || !(l.Weight >= 0) || !(l.Prior >= 0) {
			return nil, fmt.Errorf("scoring: %d groups with weight %g and prior %g for %d texts",
				len(l.Groups), l.Weight, l.Prior, len(s))
		}
		sums, counts := map[string]float64{}, map[string]float64{}
		for i, g := range l.Groups {
			if g != "" {
				sums[g] += s[i]
				counts[g]++
			}
		}
		for i, g := range l.Groups {
			if g != "" {
				out[i] += l.Weight * sums[g] / (counts[g] + l.Prior)
			} else {
				out[i] += l.Weight * s[i] / (1 + l.Prior)
			}
		}
	}
	return out, nil
}
