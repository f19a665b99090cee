package sharding

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/fedsim"
	"popri/fedsim/release"
	"popri/fedsim/sealing"
	"popri/fedsim/shard"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/methods"
	"popri/run/assembly"
	"popri/scoring/query"
)

// MergeOptions say which partial sums make the release of which round.
type MergeOptions struct {
	Dir   string // the run's folder
	Round int
	Key   string   // file of the merger's private key
	Parts []string // files of all shards
}

// Merge adds up the partial sums of all shards of a run's round, adds noise, charges the run's ledger and writes the
// release, by the protocol of package fedsim. A merge that was killed is repeated: what was drawn is used again, and
// what was charged is not charged again. The release of a round that has one is returned as it is.
func Merge(o MergeOptions) (_ *release.Release, err error) {
	if !rundir.Exists(o.Dir) {
		return nil, fault.Userf("%s holds no run: there is no %s", o.Dir, rundir.Config)
	}
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(o.Dir, rundir.Config)})
	if err != nil {
		return nil, err
	}
	if !c.Fed.Elsewhere() {
		return nil, fault.Userf("%s asks its clients itself (fed.clients is 0): there is nothing to merge", o.Dir)
	}
	dir := rundir.Round(o.Dir, o.Round)
	path := filepath.Join(dir, rundir.Question)
	q, asked, err := shard.ReadQuestion(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("round %d of %s is not waiting for shards: %s is not there", o.Round, o.Dir, path)
	}
	if err != nil {
		return nil, err
	}
	name, bound := methods.Of(*c).Query(*c)
	if q.Round != o.Round || q.Name != name || q.Bound != bound || q.Clients != c.Fed.Clients {
		return nil,
			fault.Userf("%s asks %d clients for %q with norm bound %g in round %d, the run asks %d for %q with %g in "+
				"round %d", path,
				q.Clients, q.Name, q.Bound, q.Round, c.Fed.Clients, name, bound, o.Round)
	}
	key, err := sealing.ReadPrivateKey(o.Key)
	if err != nil {
		return nil, err
	}
	record, err := ledger.Inspect(filepath.Join(o.Dir, rundir.Ledger))
	if err != nil {
		return nil, err
	}
	l, err := assembly.OpenLedger(*c, o.Dir, record.Budget) // acquires the folder's lock
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	sigma, err := assembly.Calibrate(*c, l.Budget(), assembly.Inherited(l))
	if err != nil {
		return nil, err
	}
	sums := func(release.Request) (query.Partial, error) { return shard.Merge(key, q, o.Parts) }
	federation, err := fedsim.NewRemote(l.Budget().Clients, sums, assembly.Federation(*c, o.Dir, l, sigma))
	if err != nil {
		return nil, err
	}
	return federation.Collect(release.Request{Round: o.Round, Query: asked, Dir: dir})
}

// WaitingRound is the round of a run whose question has no release yet; 0 for none.
func WaitingRound(dir string) int {
	rounds, err := filepath.Glob(filepath.Join(dir, rundir.Rounds, "*", rundir.Question))
	if err != nil {
		return 0
	}
	for _, path := range rounds {
		var round int
		_, err := fmt.Sscanf(filepath.Base(filepath.Dir(path)), "%d", &round)
		_, released := os.Stat(filepath.Join(filepath.Dir(path), release.File))
		if err == nil && errors.Is(released, fs.ErrNotExist) {
			return round
		}
	}
	return 0
}
