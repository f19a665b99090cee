package grpo

import "gonum.org/v1/gonum/stat"

// advantageEpsilon keeps the division finite, as in TRL.
const advantageEpsilon = 1e-4

// advantages returns each score's difference from the mean of its group, divided by the standard deviation of the group,
// so that prompts whose samples hardly differ count as much as others. Groups are size successive scores. deviations are
// the groups' standard deviations, with Bessel's correction.
func advantages(scores []float64, size int) (advantages, deviations []float64) {
	for from := 0; from < len(scores); from += size {
		group := scores[from : from+size]
		mean, deviation := stat.MeanStdDev(group, nil)
		deviations = append(deviations, deviation)
		for _, score := range group {
			advantages = append(advantages, (score-mean)/(deviation+advantageEpsilon))
		}
	}
	return advantages, deviations
}
