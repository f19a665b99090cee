package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"popri/accountant/ledger"
	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/methods"
)

// Reuse offers the release of the run in dir to a run that has one question and has not asked it: where that run asked
// the same clients under the same budget, its release is where this run's own would be before it is charged. If the
// question and the noise are the same, too, the run takes it and charges its own ledger with it; a charge that several
// ledgers hold counts once ([ledger.Compose]), so both runs together spend what one does. If they are not, the run asks
// the clients itself. Reuse reports whether there was something to offer.
func (s *Session) Reuse(dir string) (bool, error) {
	if methods.Of(s.Config).Releases(s.Config) != 1 || len(s.ledger.Entries()) > 0 || s.budget.Data == "" {
		return false, nil
	}
	first := rundir.Round(s.Dir, 1)
	if rundir.Has(first, release.File) || rundir.Has(first, release.PendingFile) {
		return false, nil
	}
	from := filepath.Join(rundir.Round(dir, 1), release.File)
	r, err := release.Read(from)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	record, err := ledger.Inspect(filepath.Join(dir, rundir.Ledger))
	if err != nil {
		return false, err
	}
	paid := func(e ledger.Entry) bool { return e.ReleaseHash == r.Hash && e.Round == 1 && !e.Inherited }
	if record.Budget != s.budget || !slices.ContainsFunc(record.Entries, paid) {
		return false, nil
	}
	if err := os.MkdirAll(first, 0o755); err != nil {
		return false, err
	}
	return true, atomicfile.WriteBytes(filepath.Join(first, release.PendingFile), r.Encode())
}
