package ledger

import (
	"fmt"
	"os"
)

// Record is all that a ledger says.
type Record struct {
	Budget  Budget
	Entries []Entry
	// Totals is the running total of ε beside each charge.
	Totals []float64
	// Continues is the last hash of the ledger that this one continues, ContinuedBy the first hash of the ledger that
	// continues this one; "" for none.
	Continues, ContinuedBy string
	// Hashes are the hashes of all lines. Whoever keeps the last one elsewhere can verify later that the line is still
	// there.
	Hashes []string
}

// Head returns the hash of the last line, "" of a record without lines.
func (r Record) Head() string {
	if len(r.Hashes) == 0 {
		return ""
	}
	return r.Hashes[len(r.Hashes)-1]
}

// Inspect reads a ledger, with all checks, without locking or changing it.
func Inspect(path string) (Record, error) {
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
	return Record{c.budget, c.entries, c.totals, c.continues, c.by, c.hashes}, nil
}

// Read returns the budget and charges of a ledger without locking or changing it, for reports.
func Read(path string) (Budget, []Entry, error) {
	r, err := Inspect(path)
	return r.Budget, r.Entries, err
}
