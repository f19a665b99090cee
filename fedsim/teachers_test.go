package fedsim

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/release"
	"popri/scoring/ensemble"
)

// voters are teachers of whom each votes for a token of its own under a prefix, but for those that agree.
type voters struct{ n, agree int }

func (v voters) N() int { return v.n }

func (v voters) Votes(q ensemble.Question) ([]int64, error) {
	counts := make([]int64, q.Vocab)
	for i := range v.n {
		if i < v.agree {
			counts[3+len(q.Prefix)]++
		} else {
			counts[50+i]++
		}
	}
	return counts, nil
}

func vote(part int, prefix ...int32) ensemble.Question {
	return ensemble.Question{Teachers: testClients, Vocab: 100, Coordinated: true, Temperature: 1, Seed: 1, Round: 1,
		Text: 1, Part: part, Prefix: prefix}
}

func voting(t *testing.T, dir string, agree int, sigma float64, seed *uint64, epsilon float64) (*Federation, *ledger.Ledger) {
	t.Helper()
	b := ledger.Budget{Epsilon: epsilon, Delta: 1e-3, Mechanism: "gaussian", Unit: "a client is a test",
		Relation: accountant.ZeroOut, Clients: testClients, InsecureSeededNoise: seed != nil}
	l, err := ledger.Obtain(filepath.Join(dir, "ledger.jsonl"), b)
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(Teachers{voters{testClients, agree}}, Choice{Gaussian{Sigma: sigma}}, Config{Ledger: l, InsecureSeed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return f, l
}

// TestTokens: a release is the token on which enough teachers agree, with its noised count, or none. Nothing else of
// the histogram is on disk, and each part of a round has a charge and noise of its own.
func TestTokens(t *testing.T) {
	seed := uint64(5)
	for _, c := range []struct {
		agree int
		token float64
	}{{testClients, 3}, {12, ensemble.None}} {
		dir := t.TempDir()
		f, l := voting(t, dir, c.agree, 1, &seed, 100)
		counts := map[float64]bool{}
		for part := 1; part <= 4; part++ {
			r, err := f.Collect(release.Request{Round: 1, Part: part, Query: vote(part), Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Sum) != 2 || r.Sum[0] != c.token || !r.Chosen ||
				math.Abs(r.Sum[1]-float64(c.agree)) > 6 && c.token != ensemble.None ||
				c.token == ensemble.None && r.Sum[1] != 0 {
				t.Errorf("part %d releases %v", part, r.Sum)
			}
			counts[r.Sum[1]] = true
			file, _ := release.Files(part)
			content, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil || len(content)-bytes.IndexByte(content, '\n') != 17 {
				t.Errorf("the release of part %d has %d bytes behind its header (%v)", part,
					len(content)-bytes.IndexByte(content, '\n')-1, err)
			}
			again, err := f.Collect(release.Request{Round: 1, Part: part, Query: vote(part), Dir: dir})
			if err != nil || !again.Resumed || again.Hash != r.Hash {
				t.Errorf("asked again, part %d has another answer (%v)", part, err)
			}
		}
		if entries := l.Entries(); len(entries) != 4 || entries[2].Part != 3 || !entries[2].Chosen ||
			entries[2].Sigma != 1 || math.Abs(entries[2].Sensitivity-1) > 1e-5 {
			t.Errorf("charges %+v", entries)
		}
		if c.token != ensemble.None && len(counts) != 4 {
			t.Errorf("counts %v: parts have the same noise", counts)
		}
		if _, err := f.Collect(release.Request{Round: 1, Part: 2, Query: vote(2, 9), Dir: dir}); !errors.Is(err,
			release.ErrOtherSamples) {
			t.Errorf("another prefix: %v", err)
		}
		if _, err := f.Collect(release.Request{Round: 1, Query: updates(1), Dir: dir}); err == nil {
			t.Error("teachers answer with updates")
		}
		l.Close()
	}
}

// TestTokensAfterCrashes: wherever a process ends, the next one continues with the same release, and pays once.
func TestTokensAfterCrashes(t *testing.T) {
	stop := errors.New("the process ends")
	for _, stage := range []string{"drawn", "pending", "charged", "renamed"} {
		dir := t.TempDir()
		f, l := voting(t, dir, testClients, 2, nil, 100)
		f.crash = func(at string) error {
			if at == stage {
				return stop
			}
			return nil
		}
		ask := release.Request{Round: 1, Part: 2, Query: vote(2, 4), Dir: dir}
		if _, err := f.Collect(ask); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		l.Close()
		_, drawn := release.Files(2)
		pending, _ := os.ReadFile(filepath.Join(dir, drawn))
		f, l = voting(t, dir, testClients, 2, nil, 100)
		r, err := f.Collect(ask)
		if err != nil {
			t.Fatal(err)
		}
		if len(pending) > 0 && ledger.ContentHash(pending) != r.Hash {
			t.Errorf("after %q another token was drawn", stage)
		}
		if entries := l.Entries(); len(entries) != 1 || entries[0].ReleaseHash != r.Hash {
			t.Errorf("after %q: charges %+v", stage, entries)
		}
		l.Close()
	}
}

// TestTokensWithinBudget: the token that the budget does not cover is not drawn.
func TestTokensWithinBudget(t *testing.T) {
	dir := t.TempDir()
	sigma, err := accountant.Plan{Each: accountant.Event{Count: 3}}.Sigma(accountant.Exact{}, 5, 1e-3)
	if err != nil {
		t.Fatal(err)
	}
	f, l := voting(t, dir, testClients, sigma, nil, 5)
	defer l.Close()
	for part := 1; part <= 4; part++ {
		_, err := f.Collect(release.Request{Round: 1, Part: part, Query: vote(part), Dir: dir})
		if (part == 4) != errors.Is(err, ledger.ErrBudget) || part < 4 && err != nil {
			t.Errorf("part %d: %v", part, err)
		}
	}
	if spent, err := l.Spent(); err != nil || spent > 5 || spent < 4.999 {
		t.Errorf("%g is spent (%v)", spent, err)
	}
}
