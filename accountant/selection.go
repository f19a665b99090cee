package accountant

import "math"

// A selection ([Gumbel]) publishes which counts are the largest: LimitedDomain (Durfee and Rogers 2019, algorithm 2).
// Each client gives one vote. With counts h, K of them the domain D, b the scale of the noise, g clients in a group,
// and an element ⊥ with the score
//
//	h_⊥ = h_(K+1) + g + b·ln(min(g, K, n−K)/δ0)
//
// the elements of D ∪ {⊥} are taken in falling order of their scores plus Gumbel noise of scale b, at most k of them,
// up to ⊥. That is the same as drawing one after another of those that are left, with probabilities in proportion to
// e^(score/b).
//
// Without one client's texts, scores fall by 0 or 1, all in the same direction; so do the sorted counts, and with them
// h_⊥. Elements that are in D for one of two neighbours alone are fewer than g+1, and each is above h_(K+1) by g at
// most, so that one of them is taken before ⊥ with probability δ0 at most, for all draws together. Matched with each
// other, their scores differ as all others do. So, but for an event of probability δ0, a selection is k draws by the
// exponential mechanism whose scores move by 0 to 1: the privacy loss of a draw is in an interval of width η = g/b
// (bounded range: Dong, Durfee and Rogers 2020), and its Rényi divergence of order α is at most αη²/8 (Cesar and Rogers
// 2021, lemma 3.4) and at most η. Selections compose by adding divergences, and their δ0.
//
// The published analysis of genetic EDA has b = 2/ε0, which serves replacement, too. Here, with the same b, η is ε0/2:
// texts are taken away, so that counts move in one direction.

// selectionDivergence is the Rényi divergence of order a of k draws in a range of width eta.
func selectionDivergence(k int, eta, a float64) float64 {
	return float64(k) * math.Min(a*eta*eta/8, eta)
}

// slack is the probability of what a release's divergence does not cover, of all releases together.
func slack(events []Event) (sum float64) {
	for _, e := range events {
		sum += float64(e.Count) * e.Slack
	}
	return sum
}

// SelectionThreshold is the score of ⊥ above the (K+1)-th of n counts: g + b·ln(min(g, K, n−K)/δ0).
func SelectionThreshold(scale, slack float64, group, domain, n int) float64 {
	return float64(group) + scale*math.Log(float64(min(group, domain, n-domain))/slack)
}
