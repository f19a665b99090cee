package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
)

// Release is a file that may be seen only when it is charged. It is written by [Ledger.Release] alone:
//
//	drawn ─► Pending, synced ─► the charge, synced ─► renamed to Final
//
// The mean of two draws of noise for one charge has less noise, so a crash must neither lose a charge nor repeat a
// draw: whatever a process finds of these states, it continues from there.
type Release struct {
	Final, Pending string // paths in one folder
	// Charge is what a file with this content costs, but for its hash. An error says that the content answers another
	// request, or none.
	Charge func(content []byte) (Entry, error)
	// Planned is what the release will cost at most. Nothing is drawn that the budget does not cover. nil leaves the
	// decision to the charge: a seeded draw may repeat what is charged already.
	Planned *Entry
	// Draw makes the content. An error that is a [*SpentError] is charged.
	Draw func() ([]byte, error)
	// Crash stands for a process that ends at the named stage; tests set it.
	Crash func(stage string) error
}

// SpentError is the error of a draw whose outcome was seen and is no release. It is charged, once, before the error is
// returned.
type SpentError struct {
	Entry Entry // with the hash of what was seen
	Err   error
	Done  func() error // called when the charge is on disk; may be nil
}

// Error says why there is no release.
func (e *SpentError) Error() string { return e.Err.Error() }

// Unwrap returns why there is no release.
func (e *SpentError) Unwrap() error { return e.Err }

// ErrUncharged marks a release on disk that is not in the ledger.
var ErrUncharged = errors.New("the release was never charged")

// ContentHash is the hash that identifies a release in ledgers: hex SHA-256.
func ContentHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Covers returns a [*BudgetError] if the budget does not cover a further charge like e.
func (l *Ledger) Covers(e Entry) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	_, err := l.covers(e)
	return err
}

// covers returns ε after a further charge like e, or a [*BudgetError]. It is the only place that compares with the
// budget.
func (l *Ledger) covers(e Entry) (after float64, err error) {
	budget, entries := l.content.Budget, l.content.Entries
	if after, err = Spent(budget, append(entries, e)); err != nil || after <= budget.Epsilon {
		return after, err
	}
	before, err := Spent(budget, entries)
	if err != nil {
		return 0, err
	}
	return 0, &BudgetError{l.path, before, after, budget.Epsilon, budget.Delta}
}

// Charged reports whether the ledger has a charge for the same round, part and hash, which is its own.
func (l *Ledger) Charged(e Entry) bool {
	return l.own(func(c Entry) bool {
		return c.ReleaseHash == e.ReleaseHash && c.Round == e.Round && c.Part == e.Part
	}) > 0
}

// own counts the ledger's own charges, which are not inherited, that match.
func (l *Ledger) own(match func(Entry) bool) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	n := 0
	for _, c := range l.content.Entries {
		if !c.Inherited && match(c) {
			n++
		}
	}
	return n
}

// Pay charges e, unless it is charged already.
func (l *Ledger) Pay(e Entry) error {
	if l.Charged(e) {
		return nil
	}
	return l.Charge(e)
}

// Release returns the content of a release, which is then charged and at its final path, and whether an earlier call
// made it. Called again, in another process too, it draws and charges nothing more.
//
// Errors: a [*BudgetError] if the budget does not cover the release, of which nothing is left then; [ErrUncharged]; the
// error of Charge for a file that is charged for another request; failures of the disk. A pending file that was never
// charged and answers another request was never seen, so it is removed and drawn again.
func (l *Ledger) Release(r Release) (content []byte, resumed bool, err error) {
	content, charge, err := r.read(r.Final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, false, err
	case !l.Charged(charge):
		return nil, false, fmt.Errorf("%s: %w: no charge of round %d in the ledger has its hash %.12s…", r.Final,
			ErrUncharged, charge.Round, charge.ReleaseHash)
	default:
		return content, true, nil
	}

	content, charge, err = r.read(r.Pending)
	var other *otherError
	switch {
	case err == nil && l.Charged(charge):
		return content, true, r.publish()
	case err == nil:
		return content, false, l.pay(r, charge)
	case errors.Is(err, fs.ErrNotExist):
	case errors.As(err, &other) && l.own(func(c Entry) bool { return c.ReleaseHash == other.hash }) > 0:
		return nil, false, err
	case errors.As(err, &other):
		if err := os.Remove(r.Pending); err != nil {
			return nil, false, err
		}
	default:
		return nil, false, err
	}
	return l.draw(r)
}

// draw makes a new release.
func (l *Ledger) draw(r Release) (content []byte, resumed bool, err error) {
	// Nothing is drawn without cover: no sum may be on disk that nobody may see.
	if err := l.Check(); err != nil {
		return nil, false, err
	}
	if r.Planned != nil {
		if err := l.Covers(*r.Planned); err != nil {
			return nil, false, l.afterLoss(*r.Planned, err)
		}
	}
	content, err = r.Draw()
	if spent, ok := errors.AsType[*SpentError](err); ok {
		failed := l.Pay(spent.Entry)
		if failed == nil && spent.Done != nil {
			failed = spent.Done()
		}
		return nil, false, errors.Join(err, failed)
	}
	if err != nil {
		return nil, false, err
	}
	if err := r.at("drawn"); err != nil {
		return nil, false, err
	}
	charge, err := r.charge(content)
	if err != nil {
		return nil, false, err
	}
	if err := atomicfile.WriteBytes(r.Pending, content); err != nil {
		return nil, false, err
	}
	if err := r.at("pending"); err != nil {
		return nil, false, err
	}
	if l.Charged(charge) { // seeded noise repeats itself: this is the release that was charged and lost
		return content, false, r.publish()
	}
	return content, false, l.pay(r, charge)
}

// pay charges a pending file and publishes it. One that the ledger refuses is removed.
func (l *Ledger) pay(r Release, charge Entry) error {
	err := l.Charge(charge)
	if errors.Is(err, ErrBudget) {
		return errors.Join(err, os.Remove(r.Pending))
	}
	if err != nil {
		return err
	}
	if err := r.at("charged"); err != nil {
		return err
	}
	return r.publish()
}

// afterLoss says that a release which the budget does not cover was charged before and is gone.
func (l *Ledger) afterLoss(e Entry, refused error) error {
	lost := l.own(func(c Entry) bool { return c.Round == e.Round && c.Part == e.Part })
	if lost == 0 || !errors.Is(refused, ErrBudget) {
		return refused
	}
	return fmt.Errorf("the round was charged %d times and its release is gone from disk; it would have to be paid for "+
		"again: %w", lost, refused)
}

// otherError is the error of a file with this hash that answers another request.
type otherError struct {
	hash string
	err  error
}

func (e *otherError) Error() string { return e.err.Error() }
func (e *otherError) Unwrap() error { return e.err }

func (r Release) read(path string) ([]byte, Entry, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, Entry{}, err
	}
	charge, err := r.charge(content)
	if err != nil {
		err = &otherError{ContentHash(content), fmt.Errorf("%s: %w", path, err)}
	}
	return content, charge, err
}

func (r Release) charge(content []byte) (Entry, error) {
	e, err := r.Charge(content)
	e.ReleaseHash = ContentHash(content)
	return e, err
}

func (r Release) publish() error {
	if err := os.Rename(r.Pending, r.Final); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(filepath.Dir(r.Final)); err != nil {
		return err
	}
	return r.at("renamed")
}

func (r Release) at(stage string) error {
	if r.Crash == nil {
		return nil
	}
	return r.Crash(stage)
}
