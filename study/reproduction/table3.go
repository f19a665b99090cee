package reproduction

import (
	"errors"
	"fmt"

	"popri/accountant"
)

// What all rows of the table have in common.
const (
	NoiseRounds = 20
	NoiseDelta  = 3e-6
)

// NoiseSetting is one entry of the paper's table.
type NoiseSetting struct {
	Clients  int     `json:"clients"`
	PerRound int     `json:"per_round"` // Clients: full participation
	Epsilon  float64 `json:"epsilon"`   // that the noise is to keep
	Sigma    float64 `json:"paper_sigma"`
	// TreeSigma is the paper's noise for DP-FTRL.
	TreeSigma float64 `json:"paper_tree_sigma"`
}

// NoiseSettings are the entries of Table 3 of the POPri paper (Hou et al. 2025).
var NoiseSettings = []NoiseSetting{
	{10000, 500, 7, .67, 7.5}, {10000, 500, 1, 1.6, 43}, {10000, 1000, 7, .82, 6.7}, {10000, 1000, 1, 2.5, 39},
	{10000, 2000, 7, 1.09, 5.8}, {10000, 2000, 1, 4.3, 34}, {10000, 2500, 7, 1.23, 5.8}, {10000, 2500, 1, 5.2, 34},
	{10000, 5000, 7, 1.92, 4.8}, {10000, 5000, 1, 9.9, 28}, {10000, 7500, 7, 2.63, 3.35}, {10000, 7500, 1, 14.7, 19.5},
	{10000, 10000, 7, 3.35, 3.35}, {10000, 10000, 1, 19.3, 19.5}, {1000, 1000, 7, 3.35, 3.35},
	{1000, 1000, 1, 19.3, 19.5},
	{2000, 1000, 7, 1.92, 4.8}, {2000, 1000, 1, 9.9, 28}, {4000, 1000, 7, 1.23, 5.8}, {4000, 1000, 1, 5.2, 34},
	{17000, 1000, 7, .70, 7.5}, {17000, 1000, 1, 1.8, 44}, {72000, 1000, 7, .52, 8.9}, {72000, 1000, 1, 1.14, 52},
	{133000, 1000, 7, .475, 9.5}, {133000, 1000, 1, 1.05, 55}, {72000, 72000, 7, 3.35, 3.35},
	{72000, 72000, 1, 19.3, 19.5},
	{133000, 133000, 7, 3.35, 3.35}, {133000, 133000, 1, 19.3, 19.5},
}

// NoiseRow has the ε of a setting's noise by each accountant, and the noise that the budget needs. Every field with
// "fixed" is for cohorts of exactly PerRound clients, drawn without replacement as the published code draws them, and
// for the replacement of a client, which moves a sum by twice the unit of σ. The other fields are for Poisson samples
// of that expected size and for the addition or removal of a client. Where all clients take part, the exact value has
// its own field, and the accountants agree with it.
type NoiseRow struct {
	NoiseSetting
	Exact    *float64 `json:"exact,omitempty"`
	PLD      float64  `json:"pld"`
	RDP      float64  `json:"rdp"`
	FixedPLD float64  `json:"fixed_pld"`
	FixedRDP float64  `json:"fixed_rdp"`
	// NeededSigma is the least noise that keeps Epsilon, by PLD.
	NeededSigma      float64 `json:"needed_sigma"`
	NeededFixedSigma float64 `json:"needed_fixed_sigma"`
	// Tree is the exact ε of TreeSigma where clients take part once in each of NoiseRounds trees,
	// one for each pass over the
	// clients, and a tree has a leaf for each of the pass's Clients / PerRound cohorts. The paper's noise fits this
	// count. A run of NoiseRounds rounds in all needs far less.
	Tree float64 `json:"tree"`
	// NeededTreeSigma is the least noise that keeps Epsilon, counted so. NeededTreeRounds is the same for NoiseRounds rounds
	// in all, as the paper's appendix C says: passes of Clients / PerRound rounds, each a tree, the last one ended
	// early.
	NeededTreeSigma  float64 `json:"needed_tree_sigma"`
	NeededTreeRounds float64 `json:"needed_tree_rounds_sigma"`
}

// roundSquares is the squared sensitivity of the rounds, of which each pass over the clients is a tree of leaves.
func roundSquares(rounds, leaves int) int {
	return rounds/leaves*accountant.PrefixSquares(leaves) + accountant.PrefixSquares(rounds%leaves)
}

// Compute fills in a row.
func (s NoiseSetting) Compute() (NoiseRow, error) {
	r := NoiseRow{NoiseSetting: s}
	poisson := accountant.Event{Sigma: s.Sigma, SamplingRate: float64(s.PerRound) / float64(s.Clients), Count: NoiseRounds}
	fixed := accountant.Event{Sigma: s.Sigma, Population: s.Clients, Cohort: s.PerRound, Count: NoiseRounds}
	fail := func(err error) (NoiseRow, error) {
		return r, fmt.Errorf("table3: %d of %d clients, sigma %g: %w", s.PerRound, s.Clients, s.Sigma, err)
	}
	leaves := s.Clients / s.PerRound
	squares, err := accountant.Tree{Steps: leaves, MaxParticipation: 1}.SumSquares()
	if err != nil {
		return fail(err)
	}
	pld, rdp := accountant.PLD{Relation: accountant.Replace}, accountant.RDP{Relation: accountant.Replace}
	type figure struct {
		a    accountant.Accountant
		e    accountant.Event
		into *float64
	}
	for _, c := range []figure{
		{accountant.PLD{}, poisson, &r.PLD},
		{accountant.RDP{}, poisson, &r.RDP},
		{pld, fixed, &r.FixedPLD},
		{rdp, fixed, &r.FixedRDP},
		{accountant.Exact{}, accountant.TreeEvent(s.TreeSigma, NoiseRounds*squares), &r.Tree},
	} {
		if *c.into, err = c.a.Epsilon([]accountant.Event{c.e}, NoiseDelta); err != nil {
			return fail(err)
		}
	}
	for _, c := range []figure{
		{accountant.PLD{}, poisson, &r.NeededSigma},
		{pld, fixed, &r.NeededFixedSigma},
		{accountant.Exact{}, accountant.Event{Count: NoiseRounds * squares}, &r.NeededTreeSigma},
		{accountant.Exact{}, accountant.Event{Count: roundSquares(NoiseRounds, leaves)}, &r.NeededTreeRounds},
	} {
		if *c.into, err = (accountant.Plan{Each: c.e}).Sigma(c.a, s.Epsilon, NoiseDelta); err != nil {
			return fail(err)
		}
	}
	switch e, err := (accountant.Exact{}).Epsilon([]accountant.Event{poisson}, NoiseDelta); {
	case err == nil:
		r.Exact = &e
	case !errors.Is(err, accountant.ErrNotApplicable):
		return fail(err)
	}
	return r, nil
}
