package ledger

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/filelock"
)

// ErrBudget marks a charge that would exceed the budget. Nothing was written.
var ErrBudget = errors.New("the privacy budget would be passed")

// ErrDamaged marks a ledger that was changed after it was written, or cut short.
var ErrDamaged = errors.New("the ledger is damaged")

// ErrBadBudget marks a budget that protects nobody or contradicts itself.
var ErrBadBudget = errors.New("bad privacy budget")

// ErrContinued marks a ledger that another ledger continues: the other one holds its charges, and this one accepts no
// more.
var ErrContinued = errors.New("the ledger is continued elsewhere")

// Ledger is an open ledger, held by this process alone. Its methods are safe for concurrent use.
type Ledger struct {
	path string
	lock *filelock.Lock

	mutex   sync.Mutex
	file    *os.File
	size    int64 // of all complete lines
	broken  error // set when the content of the file is not known any more
	content content
}

// Obtain opens the ledger at path, which must have the wanted budget, or starts it. A lock of another process, a bad
// budget and another one than wanted are the user's mistakes.
func Obtain(path string, want Budget) (*Ledger, error) {
	l, err := Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		l, err = Create(path, want)
	}
	switch {
	case errors.Is(err, filelock.ErrLocked), errors.Is(err, ErrBadBudget):
		return nil, fault.User(err)
	case err != nil:
		return nil, err
	}
	if got := l.Budget(); got != want {
		other := fault.Userf("ledger: %s is for another budget: %s", path, strings.Join(want.Differs(got), "; "))
		return nil, errors.Join(other, l.Close())
	}
	return l, nil
}

// lockName is the suffix that makes the lock file's name from the ledger's.
const lockName = ".lock"

// Create starts a ledger at path with its budget. An existing ledger gives an error that is fs.ErrExist.
func Create(path string, b Budget) (*Ledger, error) { return create(path, b, "", nil) }

// create starts a ledger that continues the one with the given last hash, if any, and holds its charges.
func create(path string, b Budget, continues string, inherited []Entry) (*Ledger, error) {
	if err := b.Validate(); err != nil {
		return nil, fmt.Errorf("ledger: %s: %w", path, err)
	}
	lock, err := filelock.Acquire(path + lockName)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	err = func() error {
		if _, err := os.Stat(path); err == nil {
			return fmt.Errorf("ledger: %s: %w", path, fs.ErrExist)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("ledger: %w", err)
		}
		all, hash := seal(b.record(continues), "")
		for i, e := range inherited {
			spent, err := Spent(b, inherited[:i+1])
			if err != nil {
				return err
			}
			var line []byte
			line, hash = seal(e.record(spent), hash)
			all = append(all, line...)
		}
		// The head is written first: a ledger without a head would look cut, but a head without a ledger does no harm.
		if err := writeHead(path, head{1 + len(inherited), hash}); err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(path, all); err != nil {
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

// Open opens the ledger at path for further charges. It removes a last line that a crash left incomplete, because
// Charge never returned for it. Any other damage is an error that is [ErrDamaged] and names the line.
func Open(path string) (*Ledger, error) {
	lock, err := filelock.Acquire(path + lockName)
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
	if l.content.unfinished { // only its line break is missing: Charge may have returned for it, so it counts
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
	return l, writeHead(path, head{l.content.lines(), l.content.Head()})
}

// Budget returns what was given to [Create].
func (l *Ledger) Budget() Budget { return l.content.Budget }

// Entries returns all charges, oldest first.
func (l *Ledger) Entries() []Entry {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.content.Entries)
}

// Spent returns the ε spent so far at the budget's δ.
func (l *Ledger) Spent() (float64, error) { return Spent(l.Budget(), l.Entries()) }

// After returns the ε that would be spent after count more charges like e.
func (l *Ledger) After(e Entry, more int) (float64, error) {
	return Spent(l.Budget(), append(l.Entries(), slices.Repeat([]Entry{e}, more)...))
}

// Charge records a release. When it returns nil, the charge is on disk, and the release that it covers may be
// published. A charge that would exceed the budget is refused with a [BudgetError] and writes nothing. After any other
// error, the charge may or may not be on disk: open the ledger again to find out.
func (l *Ledger) Charge(e Entry) error {
	if err := e.validate(l.content.Budget); err != nil {
		return err
	}
	if e.Inherited {
		return fmt.Errorf("ledger: a charge cannot be inherited after the fact")
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.broken != nil {
		return fmt.Errorf("ledger: %s: an earlier charge failed (%w); open it again", l.path, l.broken)
	}
	if l.content.ContinuedBy != "" {
		return fmt.Errorf("ledger: %s: %w", l.path, ErrContinued)
	}
	if err := e.follows(l.content.Entries); err != nil {
		return err
	}
	after, err := l.covers(e)
	if err != nil {
		return err
	}
	if err := l.add(e.record(after)); err != nil {
		return err
	}
	l.content.Entries, l.content.Totals = append(l.content.Entries, e), append(l.content.Totals, after)
	return nil
}

// Check verifies that the next write would reach the ledger: the path still leads to the file that was opened, the file
// has its expected length, and its head agrees. It returns an error if, for example, the run's folder was removed or
// replaced meanwhile.
func (l *Ledger) Check() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.check()
}

func (l *Ledger) check() error {
	if l.file == nil {
		return fmt.Errorf("ledger: %s: %w", l.path, fs.ErrClosed)
	}
	opened, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	found, err := os.Stat(l.path)
	if err != nil {
		return fmt.Errorf("ledger: %w: it was removed or moved during the run, so nothing can be released", err)
	}
	if !os.SameFile(opened, found) {
		return fmt.Errorf("ledger: %s is another file than the one that was opened: it was replaced during the "+
			"run, so nothing can be released", l.path)
	}
	if found.Size() != l.size {
		return fmt.Errorf("ledger: %s: %w: it has %d bytes and had %d: something else wrote to it during the "+
			"run", l.path, ErrDamaged, found.Size(), l.size)
	}
	if err := checkHead(l.path, l.content); err != nil {
		return fmt.Errorf("ledger: %s: %w", l.path, err)
	}
	return nil
}

// add writes a line and verifies that it is on disk under the ledger's name.
func (l *Ledger) add(record func(previous string) any) error {
	if err := l.check(); err != nil {
		l.broken = err
		return err
	}
	line, hash := seal(record, l.content.Head())
	err := func() error {
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
	l.content.Hashes = append(l.content.Hashes, hash)
	if err := writeHead(l.path, head{l.content.lines(), hash}); err != nil {
		l.broken = err
		return err
	}
	return nil
}

// Close releases the ledger. It may be called more than once.
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
