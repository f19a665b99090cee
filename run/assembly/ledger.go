package assembly

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/datasets/clients"
	"popri/internal/datakey"
	"popri/internal/fault"
	"popri/internal/filelock"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/method"
)

// Tag identifies the clients of some splits under the user's key: it shows whether two runs have the same.
func Tag(p *clients.Population, splits ...clients.Split) (string, error) {
	key, err := datakey.Load()
	if err != nil {
		return "", fault.User(err)
	}
	return p.Tag(key, splits...), nil
}

// Budget is what a run may spend, and whom it protects.
func Budget(c configs.Config, p *clients.Population) (ledger.Budget, error) {
	tag, err := Tag(p, clients.Train)
	if err != nil {
		return ledger.Budget{}, err
	}
	return BudgetOf(c, p, tag), nil
}

// BudgetOf is the budget for train clients with that tag. A plan may have none, which makes no key.
func BudgetOf(c configs.Config, p *clients.Population, tag string) ledger.Budget {
	b := ledger.Budget{Epsilon: c.Privacy.Epsilon, Delta: c.Privacy.Delta, Mechanism: "gaussian", Unit: p.Unit,
		Relation: accountant.ZeroOut, Data: tag, Group: c.Privacy.Group,
		Clients: len(p.Split(clients.Train)), ForcedDelta: c.Privacy.ForceDelta,
		InsecureSeededNoise: c.Privacy.InsecureSeededNoise}
	if c.Fed.Elsewhere() { // nobody here sees the data
		b.Data, b.Clients, b.Unit = "", c.Fed.Clients, "a client is an enrolled key"
	}
	if methods.Of(c).Selection(c) != nil {
		b.Mechanism = string(accountant.Gumbel)
	}
	if ledger.Sampling(c.Fed.Sampling) == ledger.Fixed {
		b.Relation = accountant.Replace
	}
	b.Unit = cmp.Or(b.Unit, "a client is all rows with one client_id")
	return b
}

// continued is the ledger that a run continues, or "".
func continued(c configs.Config) string {
	old := c.Privacy.Continues
	if info, err := os.Stat(old); old != "" && err == nil && info.IsDir() {
		return filepath.Join(old, rundir.Ledger)
	}
	return old
}

// CheckContinues refuses a new run that would continue a ledger which another one continues already.
func CheckContinues(c configs.Config) error {
	old := continued(c)
	if r, err := ledger.Inspect(old); old == "" || err != nil || r.ContinuedBy == "" {
		return nil // Plan says what cannot be read
	}
	return fault.Userf("privacy.continues: %s: %w: continue the last ledger of the chain", old, ledger.ErrContinued)
}

// Plan checks, before anything is written, that a new run's budget is valid and that its rounds fit in it. It returns
// the noise multiplier.
func Plan(c configs.Config, b ledger.Budget) (float64, error) {
	if err := b.Validate(); err != nil {
		return 0, fault.User(err)
	}
	before, err := spentBefore(c)
	if err == nil {
		err = CheckSources(c, b, before)
	}
	if err != nil {
		return 0, err
	}
	return Calibrate(c, b, before)
}

// made are the files and folders of a run that depend on its clients.
var made = []string{rundir.Small, rundir.Synthetic, rundir.Untrained, rundir.Mixes, rundir.Adapter, rundir.Rounds, rundir.Rung}

// madeBy is the folder of the run that made a file or a folder, "" of any other. Links are followed.
func madeBy(path string) string {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	for dir := filepath.Dir(path); path != dir; path, dir = dir, filepath.Dir(dir) {
		if slices.Contains(made, filepath.Base(path)) && rundir.Has(dir, rundir.Ledger) {
			return dir
		}
	}
	return ""
}

// CheckSources refuses a configuration that begins with what another run made of the same clients' texts, a model or
// public text, without counting the charges of that run: counted has those that count. Of keys, none stands for all. Runs
// have the same clients where all train clients are the same.
func CheckSources(c configs.Config, b ledger.Budget, counted []ledger.Entry, keys ...string) error {
	from := append([]method.Model{{Key: "downstream.model", Path: c.Downstream.Model}, {Key: "model.path", Path: c.Model.Path},
		{Key: "data.public", Path: c.Data.Public}}, methods.Of(c).Needs(c).Models...)
	for _, source := range from {
		if len(keys) > 0 && !slices.Contains(keys, source.Key) {
			continue
		}
		for _, path := range publicFiles(source.Path) {
			run := madeBy(path)
			if run == "" {
				continue
			}
			earlier, err := ledger.Inspect(filepath.Join(run, rundir.Ledger))
			if err != nil {
				return err
			}
			same := earlier.Budget.Data == b.Data   // of clients elsewhere, both are "": they may be others, but nobody can tell
			if b.Data == "" && !c.Fed.Elsewhere() { // of a plan
				same = earlier.Budget.Clients == b.Clients
			}
			if !same || !slices.ContainsFunc(earlier.Entries, func(e ledger.Entry) bool {
				return !slices.ContainsFunc(counted, func(other ledger.Entry) bool {
					e.Inherited = other.Inherited
					return e == other
				})
			}) {
				continue
			}
			return fault.Userf("%s is %s, which the run %s made under a guarantee for the same clients: "+
				"privacy.continues=%s counts what that run spent against privacy.epsilon, too", source.Key, path, run, run)
		}
	}
	return nil
}

// Continued reports whether the small model learnt from the clients before, in a run whose charges count.
func Continued(c configs.Config) bool {
	return c.Privacy.Continues != "" && rundir.IsSmall(c.Downstream.Model)
}

// spentBefore are the charges of the ledger that a new run continues. It accepts no more charges once it is continued,
// so its remaining budget must suffice.
func spentBefore(c configs.Config) ([]ledger.Entry, error) {
	old := continued(c)
	if old == "" {
		return nil, nil
	}
	record, err := ledger.Inspect(old)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("privacy.continues: %w", err)
	}
	for i := range record.Entries {
		record.Entries[i].Inherited = true
	}
	return record.Entries, err
}

// Expect returns the ledger that a new run will have if it makes all its releases. Runs of one name have the same.
func Expect(c configs.Config, b ledger.Budget, name string) (ledger.Record, error) {
	sigma, err := Plan(c, b)
	if err != nil {
		return ledger.Record{}, err
	}
	r := ledger.Record{Budget: b}
	if r.Entries, err = spentBefore(c); err != nil {
		return r, err
	}
	each := planned(c, b)
	each.Sigma = sigma
	for i := range methods.Of(c).Releases(c) {
		each = each.At(i+1, b.Clients)
		each.ReleaseHash = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %d", name, i)))
		r.Entries = append(r.Entries, each)
	}
	return r, nil
}

// planned is the charge of a release as the configuration plans it, without noise.
func planned(c configs.Config, b ledger.Budget) ledger.Entry {
	e := ledger.Entry{Sampling: ledger.Sampling(c.Fed.Sampling), Cohort: c.Fed.ClientsPerRound}
	if of := methods.Of(c).Selection(c); of != nil {
		e.Mechanism, e.Picks, e.Slack = accountant.Gumbel, of.Picks, of.Slack
	}
	if e.Sampling == ledger.Poisson {
		e.SamplingRate = float64(c.Fed.ClientsPerRound) / float64(b.Clients)
	}
	return e
}

// OpenLedger opens the ledger of the run in dir and checks that it has the same budget, or makes the ledger. Only a run
// without any round may lack one: otherwise releases would be forgotten.
func OpenLedger(c configs.Config, dir string, want ledger.Budget) (l *ledger.Ledger, err error) {
	path, rounds := filepath.Join(dir, rundir.Ledger), filepath.Join(dir, rundir.Rounds)
	missing := !rundir.Has(dir, rundir.Ledger)
	if missing && rundir.Has(dir, rundir.Rounds) {
		return nil, fault.Userf("%s is gone, but %s is there: what was released cannot be accounted for. Restore "+
			"the ledger", path, rounds)
	}
	switch old := continued(c); {
	case old != "":
		if r, err := ledger.Inspect(old); err == nil && c.Fed.Elsewhere() { // as below
			want.Unit = r.Budget.Unit
		}
		if _, gone := os.Stat(old); errors.Is(gone, fs.ErrNotExist) && !missing {
			l, err = openAlone(path, gone)
		} else {
			l, err = ledger.Continue(old, path, want)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ledger.ErrContinued) {
			return nil, fault.Userf("privacy.continues: %w", err)
		}
	case missing:
		l, err = ledger.Create(path, want)
	default:
		l, err = ledger.Open(path)
	}
	switch {
	case errors.Is(err, filelock.ErrLocked), errors.Is(err, ledger.ErrBadBudget), errors.Is(err, fs.ErrPermission),
		errors.Is(err, syscall.EROFS):
		return nil, fault.User(err)
	case err != nil:
		return nil, err
	}
	got := l.Budget()
	if c.Fed.Elsewhere() { // earlier versions named the unit of the texts that are here
		want.Unit = got.Unit
	}
	if got != want {
		err := fault.Userf("%s is for another budget: %s", path, strings.Join(want.Differs(got), "; "))
		if got.Data != want.Data {
			err = fault.Userf("%s is for other clients: the train clients' texts in %s have changed, or the key for "+
				"tags of private data (%s) is another one", path, c.Data.Private, datakey.Variable)
		}
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// openAlone opens a ledger that continues another one, which is gone. Before the first charge of its own, the other one was
// closed; without one, the other may have been charged since, and gone is returned.
func openAlone(path string, gone error) (*ledger.Ledger, error) {
	l, err := ledger.Open(path)
	if err == nil && len(Inherited(l)) == len(l.Entries()) {
		return nil, errors.Join(gone, l.Close())
	}
	return l, err
}

// Inherited are the charges of the runs that a ledger continues.
func Inherited(l *ledger.Ledger) []ledger.Entry {
	return slices.DeleteFunc(l.Entries(), func(e ledger.Entry) bool { return !e.Inherited })
}

// Calibrate returns the noise multiplier of the run's releases: the configured one, or the least
// multiplier with which all rounds fit the budget that earlier runs left. The rounds that this run has made do
// not change it.
func Calibrate(c configs.Config, b ledger.Budget, before []ledger.Entry) (float64, error) {
	spent, err := ledger.Spent(b, before)
	if err != nil {
		return 0, err
	}
	short := fmt.Errorf("privacy.epsilon is %g, for what this run and %s spend together, which leaves too little for this run: %w",
		c.Privacy.Epsilon, c.Privacy.Continues, &ledger.BudgetError{Path: c.Privacy.Continues, Spent: spent, After: math.Inf(1),
			Epsilon: b.Epsilon, Delta: b.Delta})
	switch {
	case spent > c.Privacy.Epsilon:
		return 0, short
	case c.Privacy.NoiseMultiplier > 0:
		return c.Privacy.NoiseMultiplier, nil
	}
	each := planned(c, b)
	plan := accountant.Plan{Before: ledger.Events(b, before), Each: each.Event(b)}
	plan.Each.Count = ledger.Releases(each, methods.Of(c).Releases(c), b)
	a := ledger.Accountant(b, append(before, each))
	sigma, err := plan.Sigma(a, c.Privacy.Epsilon, c.Privacy.Delta)
	if err != nil || len(before) == 0 {
		return sigma, err
	}
	// The remainder that rounding leaves of a spent budget does not pay for a useful round.
	plan.Before = nil
	fresh, err := plan.Sigma(a, c.Privacy.Epsilon, c.Privacy.Delta)
	if err == nil && sigma > mostNoise*fresh {
		err = short
	}
	return sigma, err
}

// mostNoise bounds the noise of a run that continues a ledger, relative to a run with the whole budget.
const mostNoise = 30
