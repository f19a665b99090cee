package fedsim

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/accountant/ledger"
	"popri/fedsim/aggregate"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/scoring/ensemble"
	"popri/scoring/query"
	"popri/scoring/update"
)

// Collect asks the clients, charges the ledger and returns the noised sum. Called again for a round that is on disk, it
// returns the same release and charges nothing; the package's comment describes the states between.
//
// Errors: ledger.ErrBudget if the budget does not cover the round (nothing was released), [release.ErrUncharged],
// [release.ErrOtherSamples], and failures of the disk.
func (f *Federation) Collect(r release.Request) (*release.Release, error) {
	if err := f.validate(r); err != nil {
		return nil, err
	}
	answer, err := f.release(r)
	if err != nil {
		return nil, fmt.Errorf("fedsim: round %d: %w", r.Round, err)
	}
	if f.config.UnsafeDiagnostics != nil {
		if err := f.diagnose(r.Query.(query.Query), answer); err != nil {
			return nil, fmt.Errorf("fedsim: round %d: %w", r.Round, err)
		}
	}
	return answer, nil
}

func (f *Federation) validate(r release.Request) error {
	switch {
	case r.Round < 1 || r.Part < 0:
		return fmt.Errorf("fedsim: round %d, part %d, want 1 or more, and 0 or more", r.Round, r.Part)
	case r.Query == nil:
		return fmt.Errorf("fedsim: round %d asks nothing", r.Round)
	case r.Dir == "":
		return fmt.Errorf("fedsim: no folder for the release of round %d", r.Round)
	case r.Query.Key() == "":
		return fmt.Errorf("fedsim: the query of round %d does not say what it is about", r.Round)
	case !(r.Query.Bound() > 0) || math.IsInf(r.Query.Bound(), 1) || r.Query.Len() < 1:
		return fmt.Errorf("fedsim: %s asks for %d values of norm %g at most", r.Query.Name(), r.Query.Len(),
			r.Query.Bound())
	}
	asked, embedded := r.Query.(query.Query)
	_, updates := r.Query.(update.Question)
	_, votes := r.Query.(ensemble.Question)
	ranking, ranks := r.Query.(query.Ranking)
	switch {
	case updates != (f.learner != nil) || votes != (f.teachers != nil) || ranks != (f.config.Picks > 0) ||
		ranks && (f.sums != nil || f.noised != nil) || !updates && !votes && !ranks && !embedded:
		return fmt.Errorf("fedsim: the clients cannot answer %s", r.Query.Name())
	case ranks && ranking.NeedsTexts() && !f.clients.HasTexts():
		return fmt.Errorf("fedsim: %s needs each text's embedding, and only the clients' means were kept",
			r.Query.Name())
	case !updates && f.config.Sampling == ledger.Tree:
		return fmt.Errorf("fedsim: %s is no question about weights, whose sums alone are those of a tree",
			r.Query.Name())
	case f.sums == nil && f.noised == nil && embedded && asked.NeedsTexts() && !f.clients.HasTexts():
		return fmt.Errorf("fedsim: %s needs each text's embedding, and only the clients' means were kept",
			r.Query.Name())
	}
	return nil
}

func (f *Federation) release(r release.Request) (*release.Release, error) {
	file, drawn := release.Files(r.Part)
	final, pending := filepath.Join(r.Dir, file), filepath.Join(r.Dir, drawn)
	charged := map[string]bool{}
	for _, e := range f.config.Ledger.Entries() {
		if e.Round == r.Round && e.Part == r.Part && !e.Inherited {
			charged[e.ReleaseHash] = true
		}
	}

	found, err := f.load(final, r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !charged[found.Hash]:
		return nil, fmt.Errorf("%s: %w: no charge of round %d in the ledger has its hash %.12s…", final,
			release.ErrUncharged, r.Round, found.Hash)
	default:
		found.Resumed = true
		return found, nil
	}

	// A pending file is used again, so that no round ever has two noises on disk.
	found, err = f.load(pending, r)
	switch {
	case err == nil && charged[found.Hash]:
		found.Resumed = true
		return found, f.publish(pending, final)
	case err == nil:
		return f.pay(found, pending, final)
	case errors.Is(err, fs.ErrNotExist):
	case found != nil && charged[found.Hash]:
		return nil, err // charged, but for another request
	case errors.Is(err, release.ErrOtherSamples), errors.Is(err, release.ErrMalformed):
		// It was never charged with this content, so it was never released and is removed.
		if err := os.Remove(pending); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}

	// Nothing is drawn without cover: no sum may be on disk that nobody may see.
	if err := f.config.Ledger.Check(); err != nil {
		return nil, err
	}
	if err := f.affordable(r.Round, len(charged)); err != nil {
		return nil, err
	}
	fresh, err := f.draw(r)
	if err != nil {
		return nil, f.unusable(err, r, charged)
	}
	if err := f.at("drawn"); err != nil {
		return nil, err
	}
	content := fresh.Encode()
	fresh.Hash = release.ContentHash(content)
	if err := atomicfile.WriteBytes(pending, content); err != nil {
		return nil, err
	}
	if err := f.at("pending"); err != nil {
		return nil, err
	}
	if charged[fresh.Hash] { // seeded noise repeats itself: this is the release that was charged and lost
		return fresh, f.publish(pending, final)
	}
	return f.pay(fresh, pending, final)
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

// unusable charges what an error says was seen.
func (f *Federation) unusable(err error, r release.Request, charged map[string]bool) error {
	var seen *Unusable
	if !errors.As(err, &seen) {
		return err
	}
	planned, _, failed := f.planned(r)
	if failed == nil && !charged[seen.Hash] {
		planned.Hash, planned.Clients = seen.Hash, f.config.answering(seen.Reports, f.train)
		failed = f.charge(planned)
	}
	if failed == nil && seen.Charged != nil {
		failed = seen.Charged()
	}
	return errors.Join(err, failed)
}

// affordable asks the ledger before anything is drawn. It only reports lost charges of this round.
func (f *Federation) affordable(round, lost int) error {
	if f.config.InsecureSeed != nil {
		return nil // the draw decides: it may repeat the charged release
	}
	budget := f.config.Ledger.Budget()
	after, err := f.config.Ledger.After(f.config.charge(f.train, round), 1)
	if err != nil {
		return err
	}
	if after <= budget.Epsilon {
		return nil
	}
	spent, err := f.config.Ledger.Spent()
	if err != nil {
		return err
	}
	refused := &ledger.BudgetError{Path: "the run's ledger", Spent: spent, After: after, Epsilon: budget.Epsilon,
		Delta: budget.Delta}
	if lost > 0 {
		return fmt.Errorf("the round was charged %d times and its release is gone from disk; it would have to be "+
			"paid for again: %w", lost, refused)
	}
	return refused
}

// pay charges a pending release and publishes it. If the ledger refuses, the pending file is removed.
func (f *Federation) pay(fresh *release.Release, pending, final string) (*release.Release, error) {
	err := f.charge(fresh)
	if errors.Is(err, ledger.ErrBudget) {
		return nil, errors.Join(err, os.Remove(pending))
	}
	if err != nil {
		return nil, err
	}
	if err := f.at("charged"); err != nil {
		return nil, err
	}
	return fresh, f.publish(pending, final)
}

// charge records a release in the ledger.
func (f *Federation) charge(r *release.Release) error {
	charge := f.config.charge(f.train, r.Round)
	charge.Part, charge.Chosen = r.Part, r.Chosen
	charge.Sigma, charge.Sensitivity = r.Sigma, r.Sensitivity
	charge.Clients, charge.ReleaseHash, charge.Query = r.Clients, r.Hash, r.Query
	return f.config.Ledger.Charge(charge)
}

func (f *Federation) publish(pending, final string) error {
	if err := os.Rename(pending, final); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(filepath.Dir(final)); err != nil {
		return err
	}
	return f.at("renamed")
}

func (f *Federation) at(stage string) error {
	if f.crash == nil {
		return nil
	}
	return f.crash(stage)
}

// draw draws a cohort and computes a new noised sum of its clients.
func (f *Federation) draw(r release.Request) (*release.Release, error) {
	c := f.config
	answer, grid, err := f.planned(r)
	if err != nil {
		return nil, err
	}
	if q, ok := r.Query.(query.Ranking); ok {
		return answer, f.rank(r, q, answer)
	}
	var steps []int64
	if f.noised != nil {
		var reports int
		if steps, reports, err = f.noised(r); err == nil {
			answer.Clients = c.answering(reports, f.train)
		}
	} else {
		if steps, err = f.sum(r, grid, answer); err == nil {
			err = f.addNoise(steps, grid, r)
		}
	}
	if err != nil {
		return nil, err
	}
	answer.Sum = make([]float64, len(steps))
	for i, k := range steps {
		answer.Sum[i] = grid.Value(k)
		if answer.Narrow {
			answer.Sum[i] = float64(float32(answer.Sum[i]))
		}
	}
	if q, ok := r.Query.(query.Choosing); ok { // the sum itself goes no further
		answer.Sum = q.Choose(answer.Sum, answer.NoiseStd(), uniform(source(c.InsecureSeed, "choice", r)))
	}
	return answer, nil
}

// sum is the round's exact sum in steps of the grid. It sets how many clients answered.
func (f *Federation) sum(r release.Request, grid noise.Grid, answer *release.Release) ([]int64, error) {
	c := f.config
	if f.sums != nil {
		return f.remote(r, grid)
	}
	switch q := r.Query.(type) {
	case update.Question:
		return f.updates(r, q, grid, answer)
	case ensemble.Question:
		return f.votes(q, grid)
	}
	q := r.Query.(query.Query) // as validate has it
	asked := c.cohort(source(c.InsecureSeed, "cohort", r), f.train)
	if c.Least == 0 {
		return fastSum(q, f.clients.Select(asked), grid)
	}
	reports := f.train
	if c.Reports != nil {
		arrived := c.Reports(r.Round)
		reports = len(arrived)
		asked = slices.DeleteFunc(asked, func(i int) bool { _, ok := slices.BinarySearch(arrived, i); return !ok })
	}
	if reports < c.Least {
		return nil, fmt.Errorf("%w: %d of %d clients, want at least %d", ErrFew, reports, f.train, c.Least)
	}
	answer.Clients = c.answering(reports, f.train)
	return clientSum(q, f.clients.Select(asked), grid)
}

// ErrFew marks a round in which fewer clients reported than were stated to be the least. Nothing was summed or charged.
var ErrFew = errors.New("too few clients reported")

// answering is the number of clients in a sum of so many reports, as far as it is public: of a Poisson sample, what is
// expected.
func (c Config) answering(reports, train int) int {
	if c.Sampling == ledger.Poisson {
		return aggregate.Expected(float64(c.Cohort)/float64(train), reports)
	}
	return reports
}

// planned is the release if all clients answer, without the sum, and its grid.
func (f *Federation) planned(r release.Request) (*release.Release, noise.Grid, error) {
	c := f.config
	charge := c.charge(f.train, r.Round)
	if _, ok := r.Query.(query.Ranking); ok {
		return &release.Release{Part: r.Part, Chosen: true, Round: r.Round, Sampling: charge.Sampling,
			Cohort: charge.Cohort, Clients: charge.Clients, Planned: c.Sigma, Sigma: c.Sigma, Query: r.Query.Name(),
			Bound:       r.Query.Bound(),
			Sensitivity: r.Query.Bound(), Picks: c.Picks, Slack: c.Slack,
			Seeded: c.InsecureSeed != nil, Key: r.Query.Key()}, noise.Grid{}, nil
	}
	// The largest sum is that of all clients, and a cohort is never larger.
	grid, err := noise.NewGrid(c.Sigma, r.Query.Bound(), r.Query.Len(), f.train)
	if err != nil {
		return nil, grid, err
	}
	noises := 0
	if c.Least > 0 {
		noises = len(aggregate.Roles)
	}
	_, narrow := r.Query.(update.Question)
	_, chosen := r.Query.(query.Choosing)
	return &release.Release{Part: r.Part, Chosen: chosen, Tree: charge.Tree, Leaf: charge.Leaf, Leaves: charge.Leaves,
		Narrow: narrow, Noises: noises, Round: r.Round, Step: grid.Step, Sampling: charge.Sampling,
		Cohort:  charge.Cohort,
		Clients: charge.Clients, Planned: c.Sigma, Sigma: c.Sigma, Query: r.Query.Name(), Bound: r.Query.Bound(),
		Sensitivity: grid.Sensitivity, Seeded: c.InsecureSeed != nil, Key: r.Query.Key()}, grid, nil
}

// load reads a release that must be the answer to this request under this config. If it is not, the error is
// [release.ErrOtherSamples], and load returns the release with it.
func (f *Federation) load(path string, r release.Request) (*release.Release, error) {
	found, err := release.Read(path)
	if err != nil {
		return nil, err
	}
	want, _, err := f.planned(r)
	if err != nil {
		return nil, err
	}
	n := r.Query.Len()
	if q, ok := r.Query.(query.Choosing); ok {
		n = q.Chosen()
	}
	_, ranks := r.Query.(query.Ranking)
	if !ranks && len(found.Sum) != n || ranks && len(found.Sum) > f.config.Picks {
		return found, fmt.Errorf("%s: %w: it has %d values, now there would be %d", path, release.ErrOtherSamples,
			len(found.Sum), n)
	} else if found.Key != r.Query.Key() {
		return found, fmt.Errorf("%s: %w: there are as many, %d, but not the same ones", path, release.ErrOtherSamples,
			n)
	}
	if differences := want.Differs(found); len(differences) > 0 {
		return found, fmt.Errorf("%s: %w: %s", path, release.ErrOtherSettings, strings.Join(differences, "; "))
	}
	return found, nil
}
