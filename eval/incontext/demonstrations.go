package incontext

import (
	"math/rand/v2"
	"slices"
)

// Example is a text with its label, and why it has that label, or "".
type Example struct{ Text, Label, Reason string }

// Draw draws k demonstrations without replacement, evenly over the labels that examples have: labels that get one more
// than others, the demonstrations of each label and their order are random. A label with too few examples gives all of
// them, and others take the places left. Fewer than k are returned only where there are fewer examples.
func Draw(examples []Example, k int, r *rand.Rand) []Example {
	of := map[string][]Example{}
	var labels []string
	for _, e := range examples {
		if of[e.Label] == nil {
			labels = append(labels, e.Label)
		}
		of[e.Label] = append(of[e.Label], e)
	}
	slices.Sort(labels) // the draw does not depend on the order of examples' labels
	for _, l := range labels {
		r.Shuffle(len(of[l]), func(i, j int) { of[l][i], of[l][j] = of[l][j], of[l][i] })
	}
	r.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
	var drawn []Example
	for turn := 0; len(drawn) < min(k, len(examples)); turn++ {
		for _, l := range labels {
			if turn < len(of[l]) && len(drawn) < k {
				drawn = append(drawn, of[l][turn])
			}
		}
	}
	r.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn
}
