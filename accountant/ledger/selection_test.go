package ledger

import (
	"errors"
	"path/filepath"
	"testing"

	"popri/accountant"
)

// TestSelectionsAreCharged: selections fit the budget that their noise was found for and no more, also besides sums,
// and what is no selection is refused.
func TestSelectionsAreCharged(t *testing.T) {
	b := budget()
	b.Mechanism = string(accountant.Gumbel)
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l := created(t, path, b)
	e := charge(1, 0)
	e.Mechanism, e.Picks, e.Slack, e.Chosen = accountant.Gumbel, 30, 1e-5, true
	a := Accountant(b, []Entry{charge(1, 3), e})
	each := e.Event(b)
	each.Count = 4
	var err error
	if e.Sigma, err = (accountant.Plan{Each: each}).Sigma(a, b.Epsilon, b.Delta); err != nil || a.Name() != "rdp" {
		t.Fatal(a.Name(), err)
	}
	for round := 1; round <= 5; round++ {
		next := charge(round, e.Sigma)
		next.Mechanism, next.Picks, next.Slack, next.Chosen = e.Mechanism, e.Picks, e.Slack, true
		if err := l.Charge(next); (round == 5) != errors.Is(err, ErrBudget) || round < 5 && err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	for _, change := range []func(*Entry){func(e *Entry) { e.Mechanism = "" }, func(e *Entry) { e.Picks = 0 },
		func(e *Entry) { e.Slack = 1 },
		func(e *Entry) { e.Sensitivity = 2 }, func(e *Entry) { e.Mechanism = accountant.Laplace },
		func(e *Entry) { e.Part = -1 },
		func(e *Entry) { e.Sampling, e.SamplingRate = Poisson, .1 }} {
		bad := e
		bad.Sigma = 1e6
		change(&bad)
		if err := l.Charge(bad); err == nil || errors.Is(err, ErrBudget) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	spent, err := l.Spent()
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	l, err = Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	again, err := l.Spent()
	if last := l.Entries()[3]; err != nil || again != spent || again > b.Epsilon ||
		last.Mechanism != accountant.Gumbel || last.Picks != 30 {
		t.Errorf("read again, the ledger spends %g of %g (%v); the last charge is %+v", again, spent, err, last)
	}
}
