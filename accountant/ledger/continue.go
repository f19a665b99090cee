package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Continue makes a ledger at path that continues the one at old, on the same private data: the charges of the old
// ledger count in the new one, under the new budget, and the old one accepts no more charges. A second call opens the
// ledger that the first one made. The new ledger is on disk before the old one is closed. After a crash between the
// two, the next call closes the old ledger, or returns an error if the old ledger was charged in the meantime.
//
// Neither budget may know its private data: clients elsewhere. If they are others than they were, more is counted than any
// of them has spent.
//
// Errors: [ErrContinued] where the old ledger is continued by another one, [ErrBadBudget] where the budgets do not fit.
func Continue(old, path string, b Budget) (*Ledger, error) {
	from, err := Open(old)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	if differences := b.protects(from.content.Budget); len(differences) > 0 {
		return nil, fmt.Errorf("ledger: %s: %w: this run cannot continue it: %s", old, ErrBadBudget,
			strings.Join(differences, "; "))
	}
	last := from.content.Head()
	if from.content.ContinuedBy != "" {
		last = from.content.Hashes[from.content.lines()-2]
	}
	var l *Ledger
	if _, missing := os.Stat(path); errors.Is(missing, fs.ErrNotExist) {
		if from.content.ContinuedBy != "" {
			return nil, fmt.Errorf("ledger: %s: %w, by a ledger that starts with %.12s… and is not at %s", old,
				ErrContinued, from.content.ContinuedBy, path)
		}
		inherited := from.Entries()
		for i := range inherited {
			inherited[i].Inherited = true
		}
		spent, err := Spent(b, inherited)
		if err != nil {
			return nil, fmt.Errorf("ledger: %s: %w", old, err)
		}
		if spent > b.Epsilon {
			return nil, fmt.Errorf("ledger: %s: %w", old, &BudgetError{path, spent, spent, b.Epsilon, b.Delta})
		}
		if l, err = create(path, b, last, inherited); err != nil {
			return nil, err
		}
	} else if l, err = Open(path); err != nil {
		return nil, err
	}
	switch first := l.content.Hashes[0]; {
	case l.content.Continues != last:
		err = fmt.Errorf("ledger: %s does not continue %s as it is now: %s", path, old, l.continuing(from))
	case from.content.ContinuedBy == "":
		err = from.add(func(previous string) any { return continuedRecord{"continued", first, previous} })
	case from.content.ContinuedBy != first:
		err = fmt.Errorf("ledger: %s: %w, by one that starts with %.12s…", old, ErrContinued, from.content.ContinuedBy)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// continuing names the ledger that l continues, if that is not from as it is now.
func (l *Ledger) continuing(from *Ledger) string {
	switch at := slices.Index(from.content.Hashes, l.content.Continues); {
	case l.content.Continues == "":
		return "it continues none"
	case at < 0:
		return "it continues another one"
	default:
		return fmt.Sprintf("it continues its first %d lines, and there are %d", at+1, from.content.lines())
	}
}
