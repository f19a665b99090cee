package fedsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/accountant/ledger"
	"popri/datasets/clients"
	"popri/fedsim/release"
	"popri/scoring/query"
)

// partials are the exact sums of the test's clients in n parts, added up.
func partials(t testing.TB, q query.Query, n int) query.Partial {
	t.Helper()
	var sum query.Partial
	people := population(testClients).Split(clients.Train)
	for i := range n {
		var err error
		if sum, err = Partial(context.Background(), q.(query.Mergeable), encoder{16},
			people[i*len(people)/n:(i+1)*len(people)/n], sum); err != nil {
			t.Fatal(err)
		}
	}
	return sum
}

// remote opens the ledger, makes a federation of clients that are elsewhere and collects a round, as a process would.
func (r *run) remote(sums Sums, crash func(string) error) (*release.Release, error) {
	r.t.Helper()
	l, err := ledger.Open(r.ledgerPath())
	if err != nil {
		r.t.Fatal(err)
	}
	defer l.Close()
	config := r.config
	config.Ledger = l
	f, err := NewRemote(testClients, sums, config)
	if err != nil {
		r.t.Fatal(err)
	}
	f.crash = crash
	return f.Collect(r.request(1))
}

// TestRemoteIsTheSame: with the same seed, merged sums give the file that one process writes.
func TestRemoteIsTheSame(t *testing.T) {
	seed := uint64(5)
	here := newRun(t, 2, &seed)
	want, err := here.process(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 5; n++ {
		there := newRun(t, 2, &seed)
		got, err := there.remote(func(r release.Request) (query.Partial,
			error) {
			return partials(t, r.Query.(query.Query), n), nil
		}, nil)
		if err != nil || !bytes.Equal(got.Encode(), want.Encode()) {
			t.Errorf("in %d parts the release is another one (%v)", n, err)
		}
		if a, b := here.charges(), there.charges(); !slices.Equal(a, b) {
			t.Errorf("charges %+v, want %+v", b, a)
		}
	}
}

// TestMergeKilled: a merge that dies at any stage, any number of times, leaves a round with one charge and one noise;
// and what was drawn is used again even if other parts are given then.
func TestMergeKilled(t *testing.T) {
	for _, stages := range [][]string{{"drawn"}, {"pending"}, {"charged"}, {"renamed"},
		{"pending", "charged", "renamed"}} {
		t.Run(fmt.Sprint(stages), func(t *testing.T) {
			r := newRun(t, 2, nil)
			pending := filepath.Join(r.request(1).Dir, release.PendingFile)
			merged := 0
			sums := func(q release.Request) (query.Partial, error) {
				merged++
				return partials(t, q.Query.(query.Query), merged+1), nil
			}
			var drawn []byte
			for _, stage := range stages {
				_, err := r.remote(sums, func(at string) error {
					if at == stage {
						return errCrash
					}
					return nil
				})
				if err != nil && !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				if b, err := os.ReadFile(pending); err == nil {
					if drawn != nil && !bytes.Equal(b, drawn) {
						t.Fatal("a second noise was drawn")
					}
					drawn = b
				}
			}
			answer, err := r.remote(sums, nil)
			if err != nil || drawn != nil && !bytes.Equal(answer.Encode(), drawn) {
				t.Errorf("%+v, %v", answer, err)
			}
			if want := 1 + strings.Count(fmt.Sprint(stages), "drawn"); merged != want {
				t.Errorf("sums were merged %d times, want %d", merged, want)
			}
			if entries := r.charges(); len(entries) != 1 || entries[0].ReleaseHash != answer.Hash {
				t.Errorf("charges %+v", entries)
			}
		})
	}
}

// TestWaiting: while there are no sums, nothing is drawn, charged or on disk; a budget that does not cover the round is
// refused before anybody is asked.
func TestWaiting(t *testing.T) {
	wait := errors.New("wait")
	r := newRun(t, 1, nil)
	asked := 0
	sums := func(release.Request) (query.Partial, error) { asked++; return query.Partial{}, wait }
	if _, err := r.remote(sums, nil); !errors.Is(err, wait) || asked != 1 || len(r.charges()) != 0 {
		t.Errorf("%v, asked %d times, charges %+v", err, asked, r.charges())
	}
	if left, err := os.ReadDir(r.request(1).Dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	r.config.Sigma /= 3
	if _, err := r.remote(sums, nil); !errors.Is(err, ledger.ErrBudget) || asked != 1 {
		t.Errorf("beyond the budget: %v, asked %d times", err, asked)
	}
	r.config.Sigma *= 3
	other := func(release.Request) (query.Partial, error) {
		return query.Partial{Blocks: make([]query.Block, 2)}, nil
	}
	if _, err := r.remote(other, nil); !errors.Is(err, query.ErrOtherSum) || len(r.charges()) != 0 {
		t.Errorf("another sum: %v, charges %+v", err, r.charges())
	}
}

// TestRemoteRefusals: what one process alone can do is refused.
func TestRemoteRefusals(t *testing.T) {
	r := newRun(t, 1, nil)
	l, err := ledger.Open(r.ledgerPath())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for want, change := range map[string]func(*Config){
		`sampling "poisson"`: func(c *Config) { c.Sampling, c.Cohort = ledger.Poisson, 5 },
		"diagnostics":        func(c *Config) { c.UnsafeDiagnostics = &UnsafeDiagnostics{Dir: t.TempDir()} },
		"no ledger":          func(c *Config) { c.Ledger = nil },
	} {
		config := r.config
		config.Ledger = l
		change(&config)
		if _, err := NewRemote(testClients, nil, config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
