package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
)

const headName = ".head"

// head is what the file next to the ledger holds.
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

// checkHead compares the ledger with its head. A crash between the two writes leaves the ledger one line ahead; a
// ledger that is behind its head was cut.
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
		return fmt.Errorf("%w: it has %d complete lines, and had %d: it was cut short after line %d", ErrDamaged,
			lines, h.lines, lines)
	case h.lines < 1 || h.last != c.Hashes[h.lines-1] || h.lines < lines-1:
		return fmt.Errorf("%w: its head says %d lines ending in %.12s…, which its %d lines do not bear out",
			ErrDamaged, h.lines, h.last, lines)
	}
	return nil
}

// Record is all that a ledger says.
type Record struct {
	Budget  Budget
	Entries []Entry
	// Totals is the running total of ε after each charge.
	Totals []float64
	// Continues is the last hash of the ledger that this one continues, ContinuedBy the first hash of the ledger that
	// continues this one; "" for none.
	Continues, ContinuedBy string
	// Hashes are the hashes of all lines. Anyone who keeps the last one elsewhere can later verify the line.
	Hashes []string
}

// Head returns the hash of the last line, "" of a record without lines.
func (r Record) Head() string {
	if len(r.Hashes) == 0 {
		return ""
	}
	return r.Hashes[len(r.Hashes)-1]
}

// Inspect reads a ledger, with all checks, without locking or changing it. A ledger that another process charges just then
// may differ from its head, and is read again.
func Inspect(path string) (r Record, err error) {
	for range 3 {
		if r, err = inspect(path); !errors.Is(err, ErrDamaged) {
			break
		}
	}
	return r, err
}

func inspect(path string) (Record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Record{}, fmt.Errorf("ledger: %w", err)
	}
	c, err := parse(b)
	if err == nil {
		err = checkHead(path, c)
	}
	if err != nil {
		return Record{}, fmt.Errorf("ledger: %s: %w", path, err)
	}
	return c.Record, nil
}

// Read returns the budget and charges of a ledger without locking or changing it, for reports.
func Read(path string) (Budget, []Entry, error) {
	r, err := Inspect(path)
	return r.Budget, r.Entries, err
}
