package fedsim

import (
	"fmt"

	"popri/accountant/ledger"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/numeric"
	"popri/scoring/query"
)

// Selection releases which samples have the most votes ([query.Ranking]), by noise.LimitedDomain. The exact histogram
// must be in one place, so all clients vote each time.
type Selection struct {
	Scale float64 // of the Gumbel noise
	Picks int     // samples that are selected, at most
	Slack float64 // the δ of a release that goes to the threshold of counts
	Group int     // clients that one person may have; 0 is 1
}

// Check implements Mechanism.
func (s Selection) Check(_ int, b ledger.Budget) []error {
	faults := checkSigma(s.Scale)
	if max(1, s.Group) != max(1, b.Group) {
		faults = append(faults, fmt.Errorf("fedsim: selections for groups of %d clients, the ledger's budget is for %d",
			s.Group, b.Group))
	}
	if s.Picks < 1 || !(s.Slack > 0 && s.Slack < 1) {
		faults = append(faults, fmt.Errorf("fedsim: selections of %d with slack %g", s.Picks, s.Slack))
	}
	return faults
}

// Plan implements Mechanism.
func (s Selection) Plan(r release.Request, n int) (*release.Release, noise.Grid, error) {
	q, ok := r.Query.(query.Ranking)
	if !ok {
		return nil, noise.Grid{}, fmt.Errorf("%s does not ask for the most votes", r.Query.Name())
	}
	if _, picks := q.Limits(); picks != s.Picks {
		return nil, noise.Grid{}, fmt.Errorf("%s asks for %d counts at most, and %d are charged", q.Name(), picks, s.Picks)
	}
	return &release.Release{Round: r.Round, Part: r.Part, Key: q.Key(), Query: q.Name(), Bound: q.Bound(), Chosen: true,
		Sampling: ledger.Full, Cohort: n, Clients: n, Planned: s.Scale, Sigma: s.Scale, Sensitivity: q.Bound(),
		Picks: s.Picks, Slack: s.Slack}, noise.Grid{Step: 1}, nil
}

// Length implements Mechanism.
func (s Selection) Length(query.Question) (least, most int) { return 0, s.Picks }

// Draw implements Mechanism. The exact histogram goes no further than this function.
func (s Selection) Draw(plan *release.Release, round Round, c Clients, random Random) error {
	counts, err := c.Sum(round)
	if err != nil {
		return err
	}
	domain, picks := round.Query.(query.Ranking).Limits() // as Plan has it
	l := noise.LimitedDomain{Scale: s.Scale, Domain: domain, Picks: picks, Group: s.Group, Slack: s.Slack}
	selected, err := l.Select(random("selection"), counts.Steps)
	plan.Sum = numeric.Convert[float64](selected)
	return err
}
