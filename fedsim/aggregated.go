package fedsim

import (
	"errors"
	"fmt"
	"slices"

	"popri/accountant/ledger"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/scoring/query"
	"popri/scoring/update"
)

// Aggregated is the mechanism of clients behind two aggregators (package aggregate): both add the noise of a
// [Gaussian] to the sum before anybody sees it, and one noise is charged. Its clients are [Reporting] or [Remote].
type Aggregated struct{ Gaussian }

// parties is the number of aggregators, each of which adds the full noise.
const parties = 2

// Check implements Mechanism.
func (m Aggregated) Check(n int, b ledger.Budget) []error {
	faults := m.Gaussian.Check(n, b)
	if m.Sampling == ledger.Fixed {
		faults = append(faults, errors.New("fedsim: a cohort of fixed size behind two aggregators, where each "+
			"client's own coin draws it"))
	}
	return faults
}

// Plan implements Mechanism.
func (m Aggregated) Plan(r release.Request, n int) (*release.Release, noise.Grid, error) {
	plan, grid, err := m.Gaussian.Plan(r, n)
	plan.Noises = parties
	return plan, grid, err
}

// Draw implements Mechanism.
func (m Aggregated) Draw(plan *release.Release, round Round, c Clients, random Random) error {
	sum, err := m.sum(plan, round, c, random)
	if seen, ok := errors.AsType[*Unusable](err); ok {
		plan.Clients = m.answering(seen.Reports, c.N())
	}
	if err == nil {
		plan.Sum = round.Grid.Values(sum.Steps, m.Float32)
	}
	return err
}

// ErrFew marks a round in which fewer clients reported than were stated to be the least. Nothing was summed or charged.
var ErrFew = errors.New("too few clients reported")

// Rounding are simulated clients who can each round their own vector, as clients elsewhere do.
type Rounding interface {
	Clients
	// Rounded adds up the vectors of a round's cohort, each rounded to the grid by itself.
	Rounded(Round) ([]int64, error)
}

// Reporting simulates clients behind two aggregators: each client rounds its own vector to the grid, and both
// aggregators add noise.
type Reporting struct {
	Rounding
	// Least is the number of reports below which nothing is summed.
	Least int
	// Arrived are the clients whose reports arrive in a round, in ascending order; nil is all. Whether a client's
	// report arrives must not depend on its texts. The number of reports is public.
	Arrived func(round int) []int
	// InsecureSeed is as in [Config].
	InsecureSeed *uint64
}

// Sum implements Clients. Whole numbers give the same sum in any order.
func (c Reporting) Sum(r Round) (Sum, error) {
	reports := c.N()
	if c.Arrived != nil {
		arrived := c.Arrived(r.Round)
		reports = len(arrived)
		r.Cohort = slices.DeleteFunc(r.Cohort, func(i int) bool { _, ok := slices.BinarySearch(arrived, i); return !ok })
	}
	if reports < c.Least {
		return Sum{}, fmt.Errorf("%w: %d of %d clients, want at least %d", ErrFew, reports, c.N(), c.Least)
	}
	steps, err := c.Rounded(r)
	for _, role := range []string{"leader", "helper"} {
		if err == nil {
			err = noise.Add(steps, r.Grid, noise.Party(c.InsecureSeed, role, r.Round))
		}
	}
	return Sum{steps, reports}, err
}

// Remote are train clients on other machines, who report to two aggregators.
type Remote struct {
	// Enrolled is the number of train clients.
	Enrolled int
	// Ask returns the noised sum of a round from both aggregators, in steps of its grid, and the number of reports. An
	// [Unusable] error is charged; no other is.
	Ask func(release.Request) (steps []int64, reports int, err error)
}

// N implements Clients.
func (c Remote) N() int { return c.Enrolled }

// CanAnswer implements Clients.
func (c Remote) CanAnswer(q query.Question) error {
	switch asked := q.(type) {
	case query.Query:
		return nil
	case update.Question:
		if asked.Model.Rank > 0 {
			return nil
		}
	}
	return fmt.Errorf("fedsim: clients elsewhere cannot answer %s", q.Name())
}

// Sum implements Clients.
func (c Remote) Sum(r Round) (Sum, error) {
	steps, reports, err := c.Ask(r.Request)
	return Sum{steps, reports}, err
}

// Unusable is the error of a noised sum that was seen and is no answer. It is charged under its hash, once, before the
// error is returned.
type Unusable struct {
	Hash    string // hex SHA-256 of what was seen
	Reports int
	Err     error
	Charged func() error // called when the charge is on disk; may be nil
}

// Error says why.
func (u *Unusable) Error() string { return u.Err.Error() }

// Unwrap returns why.
func (u *Unusable) Unwrap() error { return u.Err }

// seen makes an error of a draw one that is charged, if the outcome was seen.
func seen(err error, plan release.Release, n int) error {
	u, ok := errors.AsType[*Unusable](err)
	if !ok {
		return err
	}
	plan.Hash = u.Hash
	return &ledger.SpentError{Entry: plan.Charge(n), Err: err, Done: u.Charged}
}
