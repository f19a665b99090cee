package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"popri/accountant"
	"popri/internal/atomicfile"
	"popri/internal/filelock"
)

// ErrBudget marks a charge that would pass the budget. Nothing was written.
var ErrBudget = errors.New("the privacy budget would be passed")

// ErrDamaged marks a ledger that was changed after it was written, or cut short.
var ErrDamaged = errors.New("the ledger is damaged")

// ErrBadBudget marks a budget that does not protect anybody, or makes no sense.
var ErrBadBudget = errors.New("bad privacy budget")

// BudgetError is the error of a refused charge; it is [ErrBudget].
type BudgetError struct {
	Path           string
	Spent, After   float64 // ε now, and as it would be
	Epsilon, Delta float64
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("ledger: %s: %v: epsilon %.6g is spent, this release would make it %.6g of %.6g at delta %.3g",
		e.Path, ErrBudget, e.Spent, e.After, e.Epsilon, e.Delta)
}

// Is makes errors.Is find [ErrBudget].
func (e *BudgetError) Is(target error) bool { return target == ErrBudget }

// Budget is what a run may spend, and on whom. It never changes after [Create].
type Budget struct {
	Epsilon float64 // may be +Inf: no protection, every charge passes
	Delta   float64
	// Mechanism names what is released: "gaussian".
	Mechanism string
	// Unit says whose data set of texts is protected: "a client is …".
	Unit string
	// Relation says which data sets count as neighbours.
	Relation accountant.Relation
	// Clients is the size of the population. Delta must be below 1/Clients: above it, releasing one client's data in
	// full would pass as private.
	Clients int
	// ForcedDelta admits a Delta of 1/Clients or more. Reports must say so.
	ForcedDelta bool
	// InsecureSeededNoise tells that the noise can be computed from the run's seed, so that nothing is protected.
	InsecureSeededNoise bool
}

// Validate returns an error that is [ErrBadBudget] and names every bad value.
func (b Budget) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !(b.Epsilon > 0) {
		fault("epsilon is %g, want more than 0", b.Epsilon)
	}
	if !(b.Delta > 0 && b.Delta < 1) {
		fault("delta is %g, want more than 0 and less than 1", b.Delta)
	}
	if b.Clients < 1 {
		fault("%d clients, want at least 1", b.Clients)
	} else if b.Delta >= 1/float64(b.Clients) && !b.ForcedDelta {
		fault("delta is %g, want less than 1/clients = %.3g: at that delta, publishing one client's texts would count as private",
			b.Delta, 1/float64(b.Clients))
	}
	if b.Mechanism != "gaussian" {
		fault("mechanism is %q, want \"gaussian\"", b.Mechanism)
	}
	if b.Relation != accountant.AddOrRemove {
		fault("relation is %q, want %q", b.Relation, accountant.AddOrRemove)
	}
	if b.Unit == "" {
		fault("the unit of privacy is not stated")
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", ErrBadBudget, errors.Join(faults...))
	}
	return nil
}

// Entry is one charge: one noised sum.
type Entry struct {
	Round       int     // from 1; a round whose release was lost and drawn anew has more than one
	Sigma       float64 // noise multiplier: standard deviation of the noise / Sensitivity
	Sensitivity float64 // L2 norm that no client's vector exceeds
	Clients     int     // that took part
	ReleaseHash string  // hex SHA-256 of the released file
}

func (e Entry) validate() error {
	switch {
	case e.Round < 1:
		return fmt.Errorf("ledger: charge for round %d, want 1 or more", e.Round)
	case !(e.Sigma >= 0) || math.IsInf(e.Sigma, 1):
		return fmt.Errorf("ledger: charge for noise multiplier %g", e.Sigma)
	case !(e.Sensitivity > 0) || math.IsInf(e.Sensitivity, 1):
		return fmt.Errorf("ledger: charge for sensitivity %g", e.Sensitivity)
	case e.Clients < 0:
		return fmt.Errorf("ledger: charge for %d clients", e.Clients)
	case !isHash(e.ReleaseHash):
		return fmt.Errorf("ledger: charge for a release with hash %q, want 64 hex digits", e.ReleaseHash)
	}
	return nil
}

// Ledger is an open ledger, held by this process alone. Its methods are safe for concurrent use.
type Ledger struct {
	path string
	lock *filelock.Lock

	mutex   sync.Mutex
	file    *os.File
	size    int64 // of all complete lines
	broken  error // set once the file's content is not known
	content content
}

// LockName is what the name of the lock file adds to the ledger's.
const LockName = ".lock"

const headName = ".head"

// Create starts a ledger at path with its budget. A ledger that is there already gives an error that is fs.ErrExist.
func Create(path string, b Budget) (*Ledger, error) {
	if err := b.Validate(); err != nil {
		return nil, fmt.Errorf("ledger: %s: %w", path, err)
	}
	lock, err := filelock.Acquire(path + LockName)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	err = func() error {
		if _, err := os.Stat(path); err == nil {
			return fmt.Errorf("ledger: %s: %w", path, fs.ErrExist)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("ledger: %w", err)
		}
		line, hash := seal(b.record(), "")
		// The head goes first: a ledger without one would look cut short, a head without a ledger harms nobody.
		if err := writeHead(path, head{1, hash}); err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(path, line); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		return nil
	}()
	if err != nil {
		lock.Release()
		return nil, err
	}
	return open(path, lock)
}

// Open goes on with the ledger at path. A last line that a crash left incomplete was never acknowledged and is removed.
// Anything else that does not fit is an error that is [ErrDamaged] and names the line.
func Open(path string) (*Ledger, error) {
	lock, err := filelock.Acquire(path + LockName)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return open(path, lock)
}

func open(path string, lock *filelock.Lock) (l *Ledger, err error) {
	l = &Ledger{path: path, lock: lock}
	defer func() {
		if err != nil {
			l.Close()
			l = nil
		}
	}()
	if l.file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return l, fmt.Errorf("ledger: %w", err)
	}
	b, err := io.ReadAll(l.file)
	if err != nil {
		return l, fmt.Errorf("ledger: %w", err)
	}
	if l.content, err = parse(b); err != nil {
		return l, fmt.Errorf("ledger: %s: %w", path, err)
	}
	if err := checkHead(path, l.content); err != nil {
		return l, fmt.Errorf("ledger: %s: %w", path, err)
	}
	l.size = int64(l.content.size)
	if l.content.unfinished { // complete but for its line break: it may have been acknowledged, so it counts
		if _, err := l.file.WriteAt([]byte("\n"), l.size); err != nil {
			return l, fmt.Errorf("ledger: %w", err)
		}
		l.size++
	}
	if err := l.file.Truncate(l.size); err != nil {
		return l, fmt.Errorf("ledger: remove the incomplete last line: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return l, fmt.Errorf("ledger: %w", err)
	}
	return l, writeHead(path, head{l.content.lines(), l.content.last})
}

// Read returns the budget and charges of a ledger without locking or changing it, for reports.
func Read(path string) (Budget, []Entry, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Budget{}, nil, fmt.Errorf("ledger: %w", err)
	}
	c, err := parse(b)
	if err == nil {
		err = checkHead(path, c)
	}
	if err != nil {
		return Budget{}, nil, fmt.Errorf("ledger: %s: %w", path, err)
	}
	return c.budget, c.entries, nil
}

// Spent returns the ε that entries have spent at the budget's δ, by the exact accountant.
func Spent(b Budget, entries []Entry) (float64, error) {
	// Equal noise is one event of several releases, so that sums round as in calibration and a calibrated number of
	// rounds fits its budget to the last bit.
	var events []accountant.Event
	for _, e := range entries {
		at := slices.IndexFunc(events, func(v accountant.Event) bool { return v.Sigma == e.Sigma })
		if at < 0 {
			at = len(events)
			events = append(events, accountant.Event{Sigma: e.Sigma})
		}
		events[at].Count++
	}
	return accountant.Exact{}.Epsilon(events, b.Delta)
}

// Budget returns what was given to [Create].
func (l *Ledger) Budget() Budget { return l.content.budget }

// Entries returns all charges, oldest first.
func (l *Ledger) Entries() []Entry {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.content.entries)
}

// Spent returns the ε spent so far at the budget's δ.
func (l *Ledger) Spent() (float64, error) { return Spent(l.Budget(), l.Entries()) }

// After returns the ε that would be spent after rounds more charges of the given noise multiplier.
func (l *Ledger) After(sigma float64, rounds int) (float64, error) {
	entries := l.Entries()
	for range rounds {
		entries = append(entries, Entry{Sigma: sigma})
	}
	return Spent(l.Budget(), entries)
}

// Charge records a release. When it returns nil the charge is on disk, and what it covers may be released. A charge
// that would pass the budget is refused with a [BudgetError] and leaves no trace. After any other error the charge may
// or may not stand: open the ledger anew to see.
func (l *Ledger) Charge(e Entry) error {
	if err := e.validate(); err != nil {
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.broken != nil {
		return fmt.Errorf("ledger: %s: an earlier charge failed (%w); open it anew", l.path, l.broken)
	}
	before, err := Spent(l.content.budget, l.content.entries)
	if err != nil {
		return err
	}
	entries := append(slices.Clone(l.content.entries), e)
	after, err := Spent(l.content.budget, entries)
	if err != nil {
		return err
	}
	if !(after <= l.content.budget.Epsilon) {
		return &BudgetError{l.path, before, after, l.content.budget.Epsilon, l.content.budget.Delta}
	}
	line, hash := seal(e.record(after), l.content.last)
	err = func() error {
		if _, err := l.file.WriteAt(line, l.size); err != nil {
			return errors.Join(err, l.file.Truncate(l.size))
		}
		return l.file.Sync()
	}()
	if err != nil {
		l.broken = err
		return fmt.Errorf("ledger: %s: write the charge: %w", l.path, err)
	}
	l.size += int64(len(line))
	l.content.entries, l.content.last = entries, hash
	if err := writeHead(l.path, head{l.content.lines(), hash}); err != nil {
		l.broken = err
		return err
	}
	return nil
}

// Close gives the ledger back. It may be called more than once.
func (l *Ledger) Close() error {
	if l == nil {
		return nil
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.broken = fs.ErrClosed
	var err error
	if l.file != nil {
		err = l.file.Close()
		l.file = nil
	}
	return errors.Join(err, l.lock.Release())
}

// head is what the file beside the ledger holds.
type head struct {
	lines int
	last  string
}

func writeHead(path string, h head) error {
	if err := atomicfile.WriteBytes(path+headName, fmt.Appendf(nil, "%d %s\n", h.lines, h.last)); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// checkHead compares the ledger with its head. A crash between the two leaves the ledger one line ahead; a ledger that
// is behind was cut.
func checkHead(path string, c content) error {
	b, err := os.ReadFile(path + headName)
	if err != nil {
		return fmt.Errorf("%w: its head cannot be read, so nobody knows how long it was: %w", ErrDamaged, err)
	}
	var h head
	if n, err := fmt.Fscanf(bytes.NewReader(b), "%d %s\n", &h.lines, &h.last); n != 2 || err != nil || !isHash(h.last) {
		return fmt.Errorf("%w: %s is not a line count and a hash", ErrDamaged, filepath.Base(path)+headName)
	}
	switch lines := c.lines(); {
	case h.lines > lines:
		return fmt.Errorf("%w: it has %d complete lines, and had %d: it was cut short after line %d", ErrDamaged, lines, h.lines, lines)
	case h.lines < 1 || h.last != c.hashes[h.lines-1] || h.lines < lines-1:
		return fmt.Errorf("%w: its head says %d lines ending in %.12s…, which its %d lines do not bear out", ErrDamaged, h.lines, h.last, lines)
	}
	return nil
}
