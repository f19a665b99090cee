package ledger

import (
	"fmt"
	"math"
	"slices"

	"popri/accountant"
)

// Sampling says how the clients of a round are drawn, which decides the cost of the round.
type Sampling string

// The ways of sampling.
const (
	Full    Sampling = "full"    // every client in every round
	Poisson Sampling = "poisson" // each client with the same probability, independently; how many they are stays secret
	Fixed   Sampling = "fixed"   // a given number of clients, drawn without replacement
	// Tree takes the clients in a shuffled order, a given number of them a round, and each once in a pass. A round's
	// sum is the sum of the node that the round completes, in a binary tree over the pass's rounds (DP-FTRL).
	Tree Sampling = "tree"
)

// Entry is one charge: one noised sum.
type Entry struct {
	Round int `json:"round"` // from 1; a round whose release was lost and drawn again has more than one charge
	// Part is the number of the release in its round, from 1, where a round has several; else 0.
	Part int `json:"part,omitempty"`
	// Chosen says that nobody saw the noised sum: what was released is a choice that was made by it.
	Chosen bool `json:"chosen,omitempty"`
	// Query is the name of what the clients were asked.
	Query string `json:"query"`
	// Sigma is the noise in the release: standard deviation / Sensitivity. Where clients add shares of the noise and
	// fewer clients answer than expected, the noise is less than planned, and the charge states the noise that is
	// there.
	Sigma       float64  `json:"sigma"`
	Sensitivity float64  `json:"sensitivity"` // L2 norm by which one client moves the sum at most, with rounding
	Sampling    Sampling `json:"sampling"`
	// SamplingRate is the probability of each client under Poisson sampling, else 0.
	SamplingRate float64 `json:"sampling_rate"`
	// Cohort is how many clients were asked: all, or the number drawn; under Poisson sampling the number expected.
	Cohort int `json:"cohort"`
	// Clients is the number of clients that took part: Cohort, or fewer where some did not answer. Under Poisson
	// sampling it is the number expected of those who could answer, because the true number depends on the data.
	Clients     int    `json:"clients"`
	ReleaseHash string `json:"release"` // hex SHA-256 of the released file
	// Mechanism is "" for a noised sum, and [accountant.Gumbel] for a selection of the largest counts: Sigma is then
	// the scale of the noise by Sensitivity, which is 1, Picks the most elements that it has, and Slack its δ0.
	Mechanism accountant.Mechanism `json:"mechanism,omitempty"`
	Picks     int                  `json:"picks,omitempty"`
	Slack     float64              `json:"slack,omitempty"`
	// Tree, Leaf and Leaves are the position of the sum under the sampling [Tree], else 0: it is the sum of the node of
	// tree Tree (from 1) whose last leaf is Leaf (from 1 to Leaves), as [accountant.NodeStart] has it. A leaf is the
	// clients of one round. Cohort and Clients belong to the leaf. A client is in one leaf of each tree.
	Tree   int `json:"tree,omitempty"`
	Leaf   int `json:"leaf,omitempty"`
	Leaves int `json:"leaves,omitempty"`
	// Order identifies the order in which the clients take their leaves: the seed of the shuffle of their sorted IDs.
	Order string `json:"order,omitempty"`
	// Inherited says that the charge is from the ledger that this one continues.
	Inherited bool `json:"inherited"`
}

// Expected is the number of clients whose coin says that they take part, of n (Poisson sampling at a rate).
func Expected(rate float64, n int) int { return max(1, int(math.Round(rate*float64(n)))) }

func (e Entry) validate(b Budget) error {
	fail := func(format string, args ...any) error { return fmt.Errorf("ledger: charge for "+format, args...) }
	switch {
	case e.Round < 1:
		return fail("round %d, want 1 or more", e.Round)
	case e.Part < 0:
		return fail("part %d of round %d, want 0 or more", e.Part, e.Round)
	case !(e.Sigma >= 0) || math.IsInf(e.Sigma, 1):
		return fail("noise multiplier %g", e.Sigma)
	case !(e.Sensitivity > 0) || math.IsInf(e.Sensitivity, 1):
		return fail("sensitivity %g", e.Sensitivity)
	case e.Clients < 0 || e.Clients > e.Cohort || e.Cohort > b.Clients:
		return fail("%d clients of a cohort of %d of %d", e.Clients, e.Cohort, b.Clients)
	case !isHash(e.ReleaseHash):
		return fail("a release with hash %q, want 64 hex digits", e.ReleaseHash)
	}
	switch e.Mechanism {
	case "":
		if e.Picks != 0 || e.Slack != 0 {
			return fail("a sum with %d picks and slack %g", e.Picks, e.Slack)
		}
	case accountant.Gumbel:
		if e.Picks < 1 || !(e.Slack >= 0 && e.Slack < 1) || e.Sampling != Full || e.Sensitivity != 1 ||
			b.Relation == accountant.Replace {
			return fail("a selection of %d with slack %g, sensitivity %g, by %s sampling under %q", e.Picks, e.Slack,
				e.Sensitivity, e.Sampling, b.Relation)
		}
	default:
		return fail("mechanism %q, want none or %q", e.Mechanism, accountant.Gumbel)
	}
	switch e.Sampling {
	case Full:
		if e.Cohort != b.Clients || e.SamplingRate != 0 {
			return fail("full participation of %d of %d clients at rate %g", e.Cohort, b.Clients, e.SamplingRate)
		}
	case Poisson:
		if !(e.SamplingRate > 0 && e.SamplingRate < 1) {
			return fail("a Poisson sample at rate %g, with %d of %d clients", e.SamplingRate, e.Clients, e.Cohort)
		}
	case Fixed:
		if e.Cohort < 1 || e.SamplingRate != 0 || b.Relation != accountant.Replace {
			return fail("a cohort of fixed size %d at rate %g under %q, want %q", e.Cohort, e.SamplingRate,
				b.Relation, accountant.Replace)
		}
	case Tree:
	default:
		return fail("sampling %q, want %q, %q, %q or %q", e.Sampling, Full, Poisson, Fixed, Tree)
	}
	return e.validateTree(b)
}

// Event converts the charge for the accountants, by itself: a node of a tree counts fully.
func (e Entry) Event(b Budget) accountant.Event {
	event := accountant.Event{Mechanism: e.Mechanism, Sigma: e.Sigma, Group: b.Group, Count: 1, Picks: e.Picks, Slack: e.Slack}
	switch e.Sampling {
	case Poisson:
		event.SamplingRate = e.SamplingRate
	case Fixed:
		event.Population, event.Cohort = b.Clients, e.Cohort
	}
	return event
}

// Events converts charges for the accountants. Equal charges that follow each other become one event: a long ledger is
// counted with each further charge.
func Events(b Budget, entries []Entry) []accountant.Event {
	var events []accountant.Event
	last, counts := accountant.Event{}, releases(entries)
	for i, e := range entries {
		if event := e.Event(b); i == 0 || event != last {
			events, last = append(events, event), event
			events[len(events)-1].Count = 0
		}
		events[len(events)-1].Count += counts[i]
	}
	return events
}

// Accountant returns the accountant that decides about charges: the tightest one that covers them.
func Accountant(b Budget, entries []Entry) accountant.Accountant {
	switch {
	case slices.ContainsFunc(entries, func(e Entry) bool { return e.Mechanism == accountant.Gumbel }):
		return accountant.RDP{Relation: b.Relation}
	case slices.ContainsFunc(entries, func(e Entry) bool { return e.Sampling == Poisson || e.Sampling == Fixed }):
		return accountant.PLD{Relation: b.Relation}
	}
	return accountant.Exact{Relation: b.Relation}
}

// Spent returns the ε that entries have spent at the budget's δ, by [Accountant]. Equal charges are counted together,
// as in calibration, so that a calibrated number of rounds fits its budget to the last bit.
func Spent(b Budget, entries []Entry) (float64, error) {
	return Accountant(b, entries).Epsilon(Events(b, entries), b.Delta)
}
