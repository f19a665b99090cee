package target

import (
	"popri/datasets"
	"popri/methods/method"
	"popri/scoring"
)

// Check refuses public texts of which no pool can be made, before a run has a folder. It embeds no more of them than it
// takes to find two that differ.
func Check(e method.Env) error {
	texts := datasets.Strings(e.Public.Generator)
	for most := 64; ; most *= 4 {
		some, which := distinct(texts, most)
		vectors, err := e.Encoder.Encode(some)
		if err != nil {
			return err
		}
		rows := vectors.Pick(which)
		if _, err = gain(rows, mean(rows), scoring.ClientTexts); err == nil || len(which) == len(texts) {
			return err
		}
	}
}

// distinct returns the first different texts, at most most, and for each text before the next different one which it
// is.
func distinct(texts []string, most int) (some []string, which []int) {
	index := map[string]int{}
	for _, t := range texts {
		at, seen := index[t]
		if !seen {
			if at = len(some); at == most {
				break
			}
			index[t], some = at, append(some, t)
		}
		which = append(which, at)
	}
	return some, which
}
