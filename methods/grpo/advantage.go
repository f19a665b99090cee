package grpo

import "gonum.org/v1/gonum/stat"

// advantageEpsilon keeps the division finite, as in TRL.
const advantageEpsilon = 1e-4

// Advantages returns each score's difference from the mean of its group, divided as scale says: by the standard
// deviation of the group ("group"), by that of all scores ("batch"), or not at all ("none"). Groups are size successive
// scores. deviations are the groups' standard deviations, with Bessel's correction.
func Advantages(scores []float64, size int, scale string) (advantages, deviations []float64) {
	advantages = make([]float64, len(scores))
	_, all := stat.MeanStdDev(scores, nil)
	for from := 0; from < len(scores); from += size {
		group := scores[from : from+size]
		mean, deviation := stat.MeanStdDev(group, nil)
		deviations = append(deviations, deviation)
		unit := 1.0
		switch scale {
		case "group":
			unit = deviation + advantageEpsilon
		case "batch":
			unit = all + advantageEpsilon
		}
		for i, score := range group {
			advantages[from+i] = (score - mean) / unit
		}
	}
	return advantages, deviations
}
