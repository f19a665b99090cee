package fedsim

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"popri/accountant/ledger"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/atomicfile"
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
		if err := f.diagnose(r.Query, answer); err != nil {
			return nil, fmt.Errorf("fedsim: round %d: %w", r.Round, err)
		}
	}
	return answer, nil
}

func (f *Federation) validate(r release.Request) error {
	switch {
	case r.Round < 1:
		return fmt.Errorf("fedsim: round %d, want 1 or more", r.Round)
	case r.Query == nil:
		return fmt.Errorf("fedsim: round %d asks nothing", r.Round)
	case r.Dir == "":
		return fmt.Errorf("fedsim: no folder for the release of round %d", r.Round)
	case r.Query.Key() == "":
		return fmt.Errorf("fedsim: the query of round %d does not say what it is about", r.Round)
	case !(r.Query.Bound() > 0) || math.IsInf(r.Query.Bound(), 1) || r.Query.Len() < 1:
		return fmt.Errorf("fedsim: %s asks for %d values of norm %g at most", r.Query.Name(), r.Query.Len(), r.Query.Bound())
	case f.sums == nil && r.Query.NeedsTexts() && !f.clients.HasTexts():
		return fmt.Errorf("fedsim: %s needs each text's embedding, and only the clients' means were kept", r.Query.Name())
	}
	return nil
}

func (f *Federation) release(r release.Request) (*release.Release, error) {
	final, pending := filepath.Join(r.Dir, release.File), filepath.Join(r.Dir, release.PendingFile)
	charged := map[string]bool{}
	for _, e := range f.config.Ledger.Entries() {
		if e.Round == r.Round && !e.Inherited {
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
	if err := f.affordable(len(charged)); err != nil {
		return nil, err
	}
	fresh, err := f.draw(r)
	if err != nil {
		return nil, err
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

// affordable asks the ledger before anything is drawn. It only reports lost charges of this round.
func (f *Federation) affordable(lost int) error {
	if f.config.InsecureSeed != nil {
		return nil // the draw decides: it may repeat the charged release
	}
	budget := f.config.Ledger.Budget()
	after, err := f.config.Ledger.After(f.config.charge(f.train), 1)
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
	charge := f.config.charge(f.train)
	charge.Round, charge.Sigma, charge.Sensitivity = fresh.Round, fresh.Sigma, fresh.Sensitivity
	charge.Clients, charge.ReleaseHash, charge.Query = fresh.Clients, fresh.Hash, fresh.Query
	err := f.config.Ledger.Charge(charge)
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
	random := source(c.InsecureSeed, "noise", r.Round)
	var steps []int64
	if f.sums != nil {
		steps, err = f.remote(r, grid, random)
	} else {
		asked := c.cohort(source(c.InsecureSeed, "cohort", r.Round), f.train)
		steps, err = aggregate(r.Query, f.clients.Select(asked), grid, random)
	}
	if err != nil {
		return nil, err
	}
	answer.Sum = make([]float64, len(steps))
	for i, k := range steps {
		answer.Sum[i] = grid.Value(k)
	}
	return answer, nil
}

// planned is the release if all clients answer, without the sum, and its grid.
func (f *Federation) planned(r release.Request) (*release.Release, noise.Grid, error) {
	c := f.config
	charge := c.charge(f.train)
	// The largest sum is that of all clients, and a cohort is never larger.
	grid, err := noise.NewGrid(c.Sigma, r.Query.Bound(), r.Query.Len(), f.train)
	if err != nil {
		return nil, grid, err
	}
	return &release.Release{Round: r.Round, Step: grid.Step, Sampling: charge.Sampling, Cohort: charge.Cohort,
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
	if n := r.Query.Len(); len(found.Sum) != n {
		return found, fmt.Errorf("%s: %w: it has %d values, now there would be %d", path, release.ErrOtherSamples,
			len(found.Sum), n)
	} else if found.Key != r.Query.Key() {
		return found, fmt.Errorf("%s: %w: there are as many, %d, but not the same ones", path, release.ErrOtherSamples, n)
	}
	if differences := want.Differs(found); len(differences) > 0 {
		return found, fmt.Errorf("%s: %w: %s", path, release.ErrOtherSettings, strings.Join(differences, "; "))
	}
	return found, nil
}
