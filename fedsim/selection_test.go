package fedsim

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/release"
	"popri/scoring"
	"popri/scoring/query"
)

const slack = 1e-5

func ballot(t *testing.T, round int) scoring.Ballot {
	t.Helper()
	q, err := scoring.NewBallot(samples(30), round, 12, 4, "samples")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func ranking(t *testing.T, dir string, sigma float64, seed *uint64) (*Federation, *ledger.Ledger) {
	t.Helper()
	b := ledger.Budget{Epsilon: 1e4, Delta: 1e-3, Mechanism: string(accountant.Gumbel), Unit: "a client is a test",
		Relation: accountant.ZeroOut, Clients: testClients, InsecureSeededNoise: seed != nil}
	l, err := ledger.Obtain(filepath.Join(dir, "ledger.jsonl"), b)
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(Ballots{Embedded{withTexts(t, testClients)}}, Selection{Scale: sigma, Picks: 4, Slack: slack},
		Config{Ledger: l, InsecureSeed: seed})
	if err != nil {
		l.Close()
		t.Fatal(err)
	}
	return f, l
}

// withTexts are clients with an embedding for each text.
func withTexts(t *testing.T, n int) query.Clients {
	t.Helper()
	all, err := Embed(t.Context(), population(n).Split("train"), encoder{16}, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRanking: a release has the indices of the largest counts in their order and no count, is charged as a selection,
// and where no count reaches the threshold it has none and is charged all the same.
func TestRanking(t *testing.T) {
	seed := uint64(3)
	dir := t.TempDir()
	f, l := ranking(t, dir, .02, &seed)
	defer l.Close()
	q := ballot(t, 1)
	counts, err := q.Counts(withTexts(t, testClients))
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	r, err := f.Collect(release.Request{Round: 1, Query: q, Dir: dir})
	if err != nil || total != testClients || len(r.Sum) == 0 || !r.Chosen || r.Picks != 4 || r.Slack != slack {
		t.Fatalf("%d votes; %+v (%v)", total, r, err)
	}
	sorted := slices.Sorted(slices.Values(counts))
	for i, x := range r.Sum {
		if counts[int(x)] != sorted[len(sorted)-1-i] {
			t.Errorf("index %d is sample %g with %d votes of %v", i, x, counts[int(x)], sorted)
		}
	}
	again, err := f.Collect(release.Request{Round: 1, Query: q, Dir: dir})
	if err != nil || !again.Resumed || again.Hash != r.Hash {
		t.Errorf("asked again: %v", err)
	}
	if e := l.Entries()[0]; e.Mechanism != accountant.Gumbel || e.Picks != 4 || e.Slack != slack || e.Sigma != .02 ||
		e.Sensitivity != 1 || !e.Chosen {
		t.Errorf("the charge is %+v", e)
	}
	if _, err := f.Collect(release.Request{Round: 2,
		Query: question(t, samples(30), scoring.Options{Normalize: scoring.None, Clip: 1},
			"k"), Dir: dir}); err == nil {
		t.Error("a sum is released where selections are charged")
	}
	other := t.TempDir()
	none, l2 := ranking(t, other, 40, nil)
	defer l2.Close()
	r, err = none.Collect(release.Request{Round: 1, Query: q, Dir: other})
	if err != nil || len(r.Sum) != 0 || len(l2.Entries()) != 1 {
		t.Errorf("far below the threshold, %v is selected, with %d charges (%v)", r, len(l2.Entries()), err)
	}
}

// TestRankingAfterCrashes: wherever a process ends, the next one continues with the same selection, and pays once.
func TestRankingAfterCrashes(t *testing.T) {
	stop := errors.New("the process ends")
	for _, stage := range []string{"drawn", "pending", "charged", "renamed"} {
		dir := t.TempDir()
		f, l := ranking(t, dir, 2, nil)
		f.crash = func(at string) error {
			if at == stage {
				return stop
			}
			return nil
		}
		ask := release.Request{Round: 1, Query: ballot(t, 1), Dir: dir}
		if _, err := f.Collect(ask); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		l.Close()
		pending, _ := os.ReadFile(filepath.Join(dir, release.PendingFile))
		f, l = ranking(t, dir, 2, nil)
		r, err := f.Collect(ask)
		if err != nil {
			t.Fatal(err)
		}
		if len(pending) > 0 && ledger.ContentHash(pending) != r.Hash || len(l.Entries()) != 1 ||
			l.Entries()[0].ReleaseHash != r.Hash {
			t.Errorf("after %q: another selection, or charges %+v", stage, l.Entries())
		}
		l.Close()
	}
}

// TestOneVote: without a client's texts one count falls by 1; clients take their texts in turn.
func TestOneVote(t *testing.T) {
	all := withTexts(t, testClients)
	whole, err := ballot(t, 2).Counts(all)
	if err != nil {
		t.Fatal(err)
	}
	for i := range testClients {
		var others []int
		for k := range testClients {
			if k != i {
				others = append(others, k)
			}
		}
		counts, err := ballot(t, 2).Counts(all.Select(others))
		if err != nil {
			t.Fatal(err)
		}
		moved := int64(0)
		for j := range counts {
			if d := whole[j] - counts[j]; d < 0 || d > 1 {
				t.Fatalf("client %d moves count %d by %d", i, j, d)
			} else {
				moved += d
			}
		}
		if moved != 1 {
			t.Errorf("client %d has %d votes", i, moved)
		}
	}
	first, _ := ballot(t, 1).Counts(all)
	if slices.Equal(first, whole) {
		t.Error("all clients vote by the same text in each round")
	}
	b := ledger.Budget{Clients: testClients}
	for want, m := range map[string]Selection{"selections of 0": {Scale: 1, Slack: slack},
		"slack 0": {Scale: 1, Picks: 4}, "groups of 3": {Scale: 1, Picks: 4, Slack: slack, Group: 3}} {
		if err := errors.Join(m.Check(testClients, b)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
