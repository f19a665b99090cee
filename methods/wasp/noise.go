package wasp

import (
	"math"

	"popri/accountant"
)

// paperNoise is the standard deviation of the paper's noise in votes, for each of L parties: the Gaussian mechanism's
// classical formula (Dwork and Roth 2014), of which the paper divides ε by √releases, with an L1 sensitivity. It is 4
// for a text, 32 for a party of eight.
//
//	σ = Δ·√(2 ln(1.25/δ_iter))·√releases / (ε·√L)
//
// The formula holds for an ε of at most 1 a release.
func paperNoise(sensitivity, epsilon, deltaIter float64, releases, parties int) float64 {
	return sensitivity * math.Sqrt(2*math.Log(1.25/deltaIter)) * math.Sqrt(float64(releases)) / (epsilon * math.Sqrt(float64(parties)))
}

// spentBy is the exact ε of releases with a noise multiplier.
func spentBy(multiplier, delta float64, releases int) (float64, error) {
	return accountant.Exact{}.Epsilon([]accountant.Event{{Sigma: multiplier, SamplingRate: 1, Count: releases}}, delta)
}
