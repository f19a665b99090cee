package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Continue makes the ledger at path go on with the one at old, on the same private data: the old one's charges count in
// it, under its budget, and the old one takes no more. Called again it opens what it made. The new ledger stands on disk
// before the old one is closed for charges, and whoever charges either has the other's charges or was first: a crash
// between leaves an old ledger that the next call closes, or, where it was charged meanwhile, refuses.
//
// Errors: [ErrContinued] where the old ledger is continued by another one, [ErrBadBudget] where the budgets do not fit.
func Continue(old, path string, b Budget) (*Ledger, error) {
	from, err := Open(old)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	if err := continuable(from.content.budget, b); err != nil {
		return nil, fmt.Errorf("ledger: %s: %w", old, err)
	}
	last := from.content.last
	if from.content.by != "" {
		last = from.content.hashes[from.content.lines()-2]
	}
	var l *Ledger
	if _, missing := os.Stat(path); errors.Is(missing, fs.ErrNotExist) {
		if from.content.by != "" {
			return nil, fmt.Errorf("ledger: %s: %w, by a ledger that starts with %.12s… and is not at %s", old, ErrContinued, from.content.by, path)
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
	switch first := l.content.hashes[0]; {
	case l.content.continues != last:
		err = fmt.Errorf("ledger: %s does not continue %s as it is now: it names its line %.12q, that ends in %.12q", path, old, l.content.continues, last)
	case from.content.by == "":
		err = from.add(func(previous string) any { return continuedRecord{"continued", first, previous} })
	case from.content.by != first:
		err = fmt.Errorf("ledger: %s: %w, by one that starts with %.12s…", old, ErrContinued, from.content.by)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func continuable(old, b Budget) error {
	switch {
	case old.Data == "" || old.Data != b.Data:
		return fmt.Errorf("%w: it is for the private data %.12q, not %.12q", ErrBadBudget, old.Data, b.Data)
	case old.Relation != b.Relation:
		return fmt.Errorf("%w: it is accounted under %q, the new one under %q", ErrBadBudget, old.Relation, b.Relation)
	case old.Clients != b.Clients || max(1, old.Group) != max(1, b.Group):
		return fmt.Errorf("%w: it is for %d clients in groups of %d, the new one for %d in groups of %d", ErrBadBudget, old.Clients, max(1, old.Group), b.Clients, max(1, b.Group))
	case old.InsecureSeededNoise != b.InsecureSeededNoise:
		return fmt.Errorf("%w: insecure seeded noise is %v in it and %v in the new one", ErrBadBudget, old.InsecureSeededNoise, b.InsecureSeededNoise)
	case old.Unit != b.Unit:
		return fmt.Errorf("%w: it protects %q, the new one %q", ErrBadBudget, old.Unit, b.Unit)
	}
	return nil
}

// Continued reports whether another ledger goes on with this one.
func (l *Ledger) Continued() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.content.by != ""
}
