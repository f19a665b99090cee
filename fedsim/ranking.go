package fedsim

import (
	"fmt"

	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/scoring/query"
)

// rank selects the largest counts of the clients' votes. The exact histogram goes no further than this function.
func (f *Federation) rank(r release.Request, q query.Ranking, answer *release.Release) error {
	domain, picks := q.Limits()
	if picks != f.config.Picks {
		return fmt.Errorf("%s asks for %d counts at most, and %d are charged", q.Name(), picks, f.config.Picks)
	}
	counts, err := q.Counts(f.clients)
	if err != nil {
		return err
	}
	l := noise.LimitedDomain{Scale: f.config.Sigma, Domain: domain, Picks: picks, Group: f.config.Ledger.Budget().Group,
		Slack: f.config.Slack}
	selected, err := l.Select(source(f.config.InsecureSeed, "selection", r), counts)
	answer.Sum = []float64{}
	for _, i := range selected {
		answer.Sum = append(answer.Sum, float64(i))
	}
	return err
}
