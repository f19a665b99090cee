package fedsim

import (
	"fmt"
	"math"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/numeric"
	"popri/scoring/query"
)

// Gaussian releases the sum of a cohort with discrete Gaussian noise: Σ_i v_i + N(0, σ²C²), C the norm bound of the
// question.
type Gaussian struct {
	// Sigma is σ, the noise multiplier: standard deviation of the noise / norm bound. 0 adds no noise, which only a
	// ledger without a bound on ε accepts.
	Sigma float64
	// Sampling says how the clients of a round are drawn: [ledger.Full], which "" stands for, [ledger.Poisson] or
	// [ledger.Fixed]. Cohorts are drawn again in every round, and in secret: sampling protects only if nobody knows who
	// was asked.
	Sampling ledger.Sampling
	// Cohort is the number of clients of a round: exact under Fixed, expected under Poisson. 0 under Full.
	Cohort int
	// Float32 rounds the values to float32 after the noise: weights of a model.
	Float32 bool
}

func (g Gaussian) sampling() ledger.Sampling {
	if g.Sampling == "" {
		return ledger.Full
	}
	return g.Sampling
}

// Check implements Mechanism.
func (g Gaussian) Check(n int, b ledger.Budget) []error {
	faults := checkSigma(g.Sigma)
	switch s := g.sampling(); s {
	case ledger.Full:
		if g.Cohort != 0 {
			faults = append(faults, fmt.Errorf("fedsim: a cohort of %d under full participation", g.Cohort))
		}
	case ledger.Poisson, ledger.Fixed:
		faults = append(faults, checkCohort(g.Cohort, n)...)
		if s == ledger.Fixed && b.Relation != accountant.Replace {
			faults = append(faults, fmt.Errorf("fedsim: cohorts of fixed size are accounted under the relation %q, want %q: "+
				"their bound compares cohorts in which another client replaces one", b.Relation, accountant.Replace))
		}
	default:
		faults = append(faults, fmt.Errorf("fedsim: sampling is %q, want %q, %q or %q", s, ledger.Full, ledger.Poisson,
			ledger.Fixed))
	}
	return faults
}

func checkSigma(sigma float64) []error {
	if sigma >= 0 && !math.IsInf(sigma, 1) {
		return nil
	}
	return []error{fmt.Errorf("fedsim: noise multiplier is %g, want 0 or more", sigma)}
}

func checkCohort(cohort, n int) []error {
	if cohort >= 1 && cohort < n {
		return nil
	}
	return []error{fmt.Errorf("fedsim: a cohort of %d of %d clients, want at least 1 and fewer than all", cohort, n)}
}

// Plan implements Mechanism.
func (g Gaussian) Plan(r release.Request, n int) (*release.Release, noise.Grid, error) {
	// The largest sum is of all clients, and a cohort is never larger.
	grid, err := noise.NewGrid(g.Sigma, r.Query.Bound(), r.Query.Len(), n)
	cohort := n
	if g.sampling() != ledger.Full {
		cohort = g.Cohort
	}
	return &release.Release{Round: r.Round, Part: r.Part, Key: r.Query.Key(), Query: r.Query.Name(),
		Bound: r.Query.Bound(), Sampling: g.sampling(), Cohort: cohort, Clients: cohort, Planned: g.Sigma,
		Sigma: g.Sigma, Sensitivity: grid.Sensitivity, Step: grid.Step, Narrow: g.Float32}, grid, err
}

// Length implements Mechanism.
func (g Gaussian) Length(q query.Question) (least, most int) { return q.Len(), q.Len() }

// Draw implements Mechanism.
func (g Gaussian) Draw(plan *release.Release, round Round, c Clients, random Random) error {
	sum, err := g.sum(plan, round, c, random)
	if err == nil {
		err = noise.Add(sum.Steps, round.Grid, random("noise"))
	}
	if err != nil {
		return err
	}
	plan.Sum = round.Grid.Values(sum.Steps, g.Float32)
	return nil
}

// sum asks a cohort.
func (g Gaussian) sum(plan *release.Release, round Round, c Clients, random Random) (Sum, error) {
	round.Cohort = g.cohort(c.N(), random)
	sum, err := c.Sum(round)
	if err == nil {
		plan.Clients = g.answering(sum.Reports, c.N())
	}
	return sum, err
}

// answering is the number of clients in a sum of reports, as far as it is public: expected, of a Poisson sample.
func (g Gaussian) answering(reports, n int) int {
	switch g.sampling() {
	case ledger.Poisson:
		return ledger.Expected(float64(g.Cohort)/float64(n), reports)
	case ledger.Fixed:
		return g.Cohort
	}
	return reports
}

// cohort draws the clients of a round, in ascending order.
func (g Gaussian) cohort(n int, random Random) []int {
	var drawn []int
	switch g.sampling() {
	case ledger.Poisson:
		source, rate := random("cohort"), float64(g.Cohort)/float64(n)
		return numeric.Where(n, func(int) bool { return noise.Chance(source, rate) })
	case ledger.Fixed:
		// Selection sampling (Knuth, algorithm S): each remaining client is taken with probability wanted/left.
		source, wanted := random("cohort"), g.Cohort
		for i := range n {
			if noise.Below(source, uint64(n-i)) < uint64(wanted) {
				drawn = append(drawn, i)
				wanted--
			}
		}
		return drawn
	}
	return numeric.Indices(n)
}

// Choice releases what a question chooses by a noised sum that nobody sees ([query.Choosing]).
type Choice struct{ Gaussian }

// Plan implements Mechanism.
func (m Choice) Plan(r release.Request, n int) (*release.Release, noise.Grid, error) {
	plan, grid, err := m.Gaussian.Plan(r, n)
	if _, ok := r.Query.(query.Choosing); !ok {
		return nil, grid, fmt.Errorf("%s makes no choice", r.Query.Name())
	}
	plan.Chosen = true
	return plan, grid, err
}

// Length implements Mechanism.
func (m Choice) Length(q query.Question) (least, most int) {
	n := q.(query.Choosing).Chosen() // as Plan has it
	return n, n
}

// Draw implements Mechanism.
func (m Choice) Draw(plan *release.Release, round Round, c Clients, random Random) error {
	if err := m.Gaussian.Draw(plan, round, c, random); err != nil {
		return err
	}
	plan.Sum = round.Query.(query.Choosing).Choose(plan.Sum, plan.NoiseStd(), uniform(random("choice")))
	return nil
}

// uniform is a number in [0, 1), a multiple of 2^-53.
func uniform(s noise.Source) float64 { return float64(s.Uint64()>>11) / (1 << 53) }
