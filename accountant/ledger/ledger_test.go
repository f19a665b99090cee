package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"popri/accountant"
	"popri/internal/filelock"
	"popri/testkit/testfile"
)

// created is [Create] of a budget that is sound.
func created(t testing.TB, path string, b Budget) *Ledger {
	t.Helper()
	l, err := Create(path, b)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func budget() Budget {
	return Budget{Epsilon: 7, Delta: 1e-4, Mechanism: "gaussian", Unit: "a client is a test",
		Relation: accountant.ZeroOut, Data: "d1", Clients: 1000}
}

func calibrated(t testing.TB, b Budget, rounds int) float64 {
	t.Helper()
	sigma, err := accountant.Plan{Each: accountant.Event{Count: rounds}}.Sigma(accountant.Exact{}, b.Epsilon, b.Delta)
	if err != nil {
		t.Fatal(err)
	}
	return sigma
}

func charge(round int, sigma float64) Entry {
	return Entry{Round: round, Sigma: sigma, Sensitivity: 1, Sampling: Full, Cohort: 1000, Clients: 1000,
		ReleaseHash: fmt.Sprintf("%064x", round)}
}

// filled makes a ledger of n charges, closed.
func filled(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l := created(t, path, budget())
	defer l.Close()
	for i := range n {
		if err := l.Charge(charge(i+1, 10)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestCalibratedRoundsFitAndNoMore(t *testing.T) {
	for _, rounds := range []int{1, 3, 20, 31} {
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		l := created(t, path, budget())
		sigma := calibrated(t, budget(), rounds)
		if after, err := l.After(charge(1, sigma), rounds); err != nil || after > 7 || after < 6.9999 {
			t.Errorf("%d rounds would spend %g (%v)", rounds, after, err)
		}
		for i := range rounds {
			if err := l.Charge(charge(i+1, sigma)); err != nil {
				t.Fatalf("round %d of %d: %v", i+1, rounds, err)
			}
		}
		before, _ := os.ReadFile(path)
		err := l.Charge(charge(rounds+1, sigma))
		var refused *BudgetError
		if !errors.Is(err, ErrBudget) || !errors.As(err, &refused) || refused.After <= 7 ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("one round too many: %v", err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Error("a refused charge left a trace")
		}
		spent, err := l.Spent()
		if err != nil || spent > 7 || spent < 6.9999 {
			t.Errorf("spent %g (%v)", spent, err)
		}
		l.Close()
	}
}

func TestOpenGoesOn(t *testing.T) {
	path := filled(t, 2)
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if l.Budget() != budget() || !reflect.DeepEqual(l.Entries(), []Entry{charge(1, 10), charge(2, 10)}) {
		t.Errorf("budget %+v, entries %+v", l.Budget(), l.Entries())
	}
	if err := l.Charge(charge(3, 10)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if err := l.Charge(charge(4, 10)); err == nil {
		t.Error("a closed ledger took a charge")
	}
	b, entries, err := Read(path)
	if err != nil || b != budget() || len(entries) != 3 {
		t.Errorf("Read: %+v, %d entries, %v", b, len(entries), err)
	}
	if _, err := Create(path, budget()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating over it: %v", err)
	}
	if _, err := Open(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening what is not there: %v", err)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	path := filled(t, 1)
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Open(path); !errors.Is(err, filelock.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("second opening: %v", err)
	}
	if _, _, err := Read(path); err != nil {
		t.Errorf("reading needs no lock: %v", err)
	}
}

func TestTornLastLineIsDropped(t *testing.T) {
	path := filled(t, 3)
	whole, _ := os.ReadFile(path)
	head, _ := os.ReadFile(path + headName)
	start := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	two := filled(t, 2) // the head as it was before the third charge was acknowledged
	earlier, _ := os.ReadFile(two + headName)
	for cut := start; cut < len(whole); cut += 1 + (len(whole)-1-cut)/12 { // densely near the end, where it matters
		write(t, path, whole[:cut])
		write(t, path+headName, earlier)
		l, err := Open(path)
		if err != nil {
			t.Fatalf("cut at %d of %d: %v", cut, len(whole), err)
		}
		want := 2
		if cut == len(whole)-1 { // only the line break is missing
			want = 3
		}
		if n := len(l.Entries()); n != want {
			t.Fatalf("cut at %d of %d: %d entries, want %d", cut, len(whole), n, want)
		}
		if err := l.Charge(charge(9, 10)); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, entries, err := Read(path); err != nil || len(entries) != want+1 {
			t.Fatalf("cut at %d: after a charge: %d entries, %v", cut, len(entries), err)
		}
	}
	// An acknowledged charge that is cut off is no torn write.
	for _, cut := range []int{start, start + 10, len(whole) - 2} {
		write(t, path, whole[:cut])
		write(t, path+headName, head)
		if _, err := Open(path); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "after line 3") {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	testfile.Write(t, path, b)
}

func TestEveryChangedByteIsFound(t *testing.T) {
	path := filled(t, 2)
	whole, _ := os.ReadFile(path)
	for at := range whole[:len(whole)-1] {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		write(t, path, changed)
		if _, err := Open(path); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Fatalf("byte %d of %d, %q: %v", at, len(whole), whole[at], err)
		}
	}
}

func TestEditsAreNamedByLine(t *testing.T) {
	lines := func(path string) [][]byte {
		b, _ := os.ReadFile(path)
		return bytes.SplitAfter(b, []byte("\n"))
	}
	path := filled(t, 3)
	l := lines(path)
	forged, _ := seal(charge(2, 1000).record(0.1), "")
	for name, c := range map[string]struct {
		content [][]byte
		want    string
	}{
		"a line removed":    {[][]byte{l[0], l[1], l[3]}, "line 3"},
		"lines swapped":     {[][]byte{l[0], l[2], l[1], l[3]}, "line 2"},
		"a line repeated":   {[][]byte{l[0], l[1], l[1], l[2], l[3]}, "line 3"},
		"a forged line":     {[][]byte{l[0], l[1], forged, l[3]}, "line 3"},
		"the first removed": {[][]byte{l[1], l[2], l[3]}, "line 1"},
		"the end cut off":   {[][]byte{l[0], l[1]}, "after line 2"},
		"lines added":       {[][]byte{l[0], l[1], l[2], l[3], []byte("{}\n")}, "line 5"},
		"nothing left":      {nil, "empty"},
		"no budget":         {[][]byte{[]byte("{")}, "line 1"},
	} {
		write(t, path, bytes.Join(c.content, nil))
		_, err := Open(path)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	write(t, path, bytes.Join(l, nil))
	for name, h := range map[string]string{"garbage": "x", "empty": "", "no line": "0 " + strings.Repeat("0", 64),
		"other hash": "4 " + strings.Repeat("0", 64)} {
		write(t, path+headName, []byte(h))
		if _, err := Open(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("head %s: %v", name, err)
		}
	}
	os.Remove(path + headName)
	if _, err := Open(path); !errors.Is(err, ErrDamaged) {
		t.Errorf("no head: %v", err)
	}
}

func TestBudgetsAreValidated(t *testing.T) {
	for want, change := range map[string]func(*Budget){
		"epsilon is 0":      func(b *Budget) { b.Epsilon = 0 },
		"epsilon is NaN":    func(b *Budget) { b.Epsilon = math.NaN() },
		"delta is 0":        func(b *Budget) { b.Delta = 0 },
		"delta is 0.001":    func(b *Budget) { b.Delta = 0.001 },
		"0 clients":         func(b *Budget) { b.Clients = 0 },
		"mechanism is":      func(b *Budget) { b.Mechanism = "laplace" },
		"relation is":       func(b *Budget) { b.Relation = "sideways" },
		"1001 clients in":   func(b *Budget) { b.Group = 1001 },
		"unit of privacy":   func(b *Budget) { b.Unit = "" },
		"less than 1/clien": func(b *Budget) { b.Delta = 0.45 },
	} {
		b := budget()
		change(&b)
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		if _, err := Create(path, b); !errors.Is(err, ErrBadBudget) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", b, err, want)
		}
	}
	b := budget()
	b.Delta, b.ForcedDelta, b.Epsilon = 0.45, true, math.Inf(1)
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l := created(t, path, b)
	if err := l.Charge(charge(1, 0)); err != nil { // no noise, under no budget
		t.Errorf("infinite budget: %v", err)
	}
	l.Close()
	if got, entries, err := Read(path); err != nil || got != b || len(entries) != 1 {
		t.Errorf("infinite budget read back: %+v, %v", got, err)
	}
}

func TestChargesAreValidated(t *testing.T) {
	l := created(t, filepath.Join(t.TempDir(), "ledger.jsonl"), budget())
	defer l.Close()
	for name, change := range map[string]func(*Entry){
		"round":       func(e *Entry) { e.Round = 0 },
		"sigma":       func(e *Entry) { e.Sigma = math.NaN() },
		"infinite":    func(e *Entry) { e.Sigma = math.Inf(1) },
		"sensitivity": func(e *Entry) { e.Sensitivity = 0 },
		"clients":     func(e *Entry) { e.Clients = -1 },
		"too many":    func(e *Entry) { e.Clients = 1001 },
		"not all":     func(e *Entry) { e.Cohort = 999 },
		"no sampling": func(e *Entry) { e.Sampling = "" },
		"rate":        func(e *Entry) { e.SamplingRate = 0.1 },
		"poisson":     func(e *Entry) { e.Sampling = Poisson },
		"fixed":       func(e *Entry) { e.Sampling = Fixed },
		"inherited":   func(e *Entry) { e.Inherited = true },
		"hash":        func(e *Entry) { e.ReleaseHash = "abc" },
	} {
		e := charge(1, 10)
		change(&e)
		if err := l.Charge(e); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := l.Charge(charge(1, 0)); !errors.Is(err, ErrBudget) {
		t.Errorf("a charge without noise: %v", err)
	}
	if n := len(l.Entries()); n != 0 {
		t.Errorf("%d entries", n)
	}
}

func TestFailedWriteIsNotAcknowledged(t *testing.T) {
	path := filled(t, 1)
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l.file.Close() // as a disk that vanished
	if err := l.Charge(charge(2, 10)); err == nil || errors.Is(err, ErrBudget) {
		t.Errorf("charge: %v", err)
	}
	if err := l.Charge(charge(2, 10)); err == nil || !strings.Contains(err.Error(), "open it again") {
		t.Errorf("next charge: %v", err)
	}
	l.Close()
	if l, err = Open(path); err != nil || len(l.Entries()) != 1 {
		t.Errorf("afterwards: %v", err)
	}
	l.Close()
}

func TestConcurrentChargesRespectTheBudget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l := created(t, path, budget())
	defer l.Close()
	const fit = 5
	sigma := calibrated(t, budget(), fit)
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			if err := l.Charge(charge(i+1, sigma)); err != nil && !errors.Is(err, ErrBudget) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if _, entries, err := Read(path); err != nil || len(entries) != fit {
		t.Errorf("%d charges stand, want %d (%v)", len(entries), fit, err)
	}
}

// Rounds of samples cost what the accountant of their sampling says, each kind under its relation.
func TestSampledCharges(t *testing.T) {
	b := budget()
	b.Group = 2
	poisson := func(round int, sigma float64) Entry {
		e := charge(round, sigma)
		e.Sampling, e.SamplingRate, e.Cohort, e.Clients = Poisson, 0.05, 50, 50
		return e
	}
	r := budget()
	r.Relation = accountant.Replace
	fixed := func(round int, sigma float64) Entry {
		e := charge(round, sigma)
		e.Sampling, e.Cohort, e.Clients = Fixed, 50, 48
		return e
	}
	for name, c := range map[string]struct {
		b    Budget
		each accountant.Event
		make func(int, float64) Entry
	}{
		"poisson": {b, accountant.Event{SamplingRate: 0.05, Group: 2, Count: 3}, poisson},
		"fixed":   {r, accountant.Event{Population: 1000, Cohort: 50, Count: 3}, fixed},
	} {
		a := accountant.PLD{Relation: c.b.Relation}
		sigma, err := accountant.Plan{Each: c.each}.Sigma(a, c.b.Epsilon, c.b.Delta)
		if err != nil {
			t.Fatal(err)
		}
		l := created(t, filepath.Join(t.TempDir(), "ledger.jsonl"), c.b)
		defer l.Close()
		for i := range 3 {
			if err := l.Charge(c.make(i+1, sigma)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := l.Charge(c.make(4, sigma)); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: a fourth round of three: %v", name, err)
		}
		spent, err := l.Spent()
		if err != nil || spent > 7 || spent < 6.999 {
			t.Errorf("%s: spent %g (%v)", name, spent, err)
		}
	}
}

// Less noise than planned, as when clients with their shares of it stay away, costs what that noise costs.
func TestFewerClientsCostMore(t *testing.T) {
	planned, fewer := charge(1, 3), charge(1, 3*math.Sqrt(0.9))
	fewer.Clients = 900
	a, _ := Spent(budget(), []Entry{planned})
	b, _ := Spent(budget(), []Entry{fewer})
	want, _ := accountant.Exact{}.Epsilon([]accountant.Event{{Sigma: 3 * math.Sqrt(0.9), Count: 1}}, 1e-4)
	if b != want || b <= a {
		t.Errorf("all answer: epsilon %g, nine of ten: %g, want %g", a, b, want)
	}
}

// Two runs on the same people spend one budget, whichever way the second begins and however often it is begun.
func TestContinue(t *testing.T) {
	old := filled(t, 2)
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	for range 2 {
		l, err := Continue(old, path, budget())
		if err != nil {
			t.Fatal(err)
		}
		entries := l.Entries()
		if len(entries) != 2 || !entries[0].Inherited || !entries[1].Inherited {
			t.Fatalf("inherited: %+v", entries)
		}
		l.Close()
	}
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Charge(charge(1, 10)); err != nil {
		t.Fatal(err)
	}
	spent, _ := l.Spent()
	if want, _ := (accountant.Exact{}).Epsilon([]accountant.Event{{Sigma: 10, Count: 3}}, 1e-4); spent != want {
		t.Errorf("spent %g, want %g", spent, want)
	}
	before, err := Open(old)
	if err != nil || before.content.ContinuedBy == "" {
		t.Fatalf("the old ledger: %v", err)
	}
	if err := before.Charge(charge(3, 10)); !errors.Is(err, ErrContinued) {
		t.Errorf("a charge to the old ledger: %v", err)
	}
	before.Close()
	if _, err := Continue(old, path+"2", budget()); !errors.Is(err, ErrContinued) {
		t.Errorf("continued twice: %v", err)
	}

	// What does not fit is refused and leaves nothing behind.
	old = filled(t, 2)
	for name, change := range map[string]func(b *Budget){
		"other data":     func(b *Budget) { b.Data = "d2" },
		"unknown data":   func(b *Budget) { b.Data = "" },
		"other relation": func(b *Budget) { b.Relation = accountant.Replace },
		"other clients":  func(b *Budget) { b.Clients = 999 },
		"other unit":     func(b *Budget) { b.Unit = "a text" },
		"seeded":         func(b *Budget) { b.InsecureSeededNoise = true },
	} {
		b := budget()
		change(&b)
		if _, err := Continue(old, path+"3", b); !errors.Is(err, ErrBadBudget) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := budget()
	b.Epsilon = 0.1
	if _, err := Continue(old, path+"3", b); !errors.Is(err, ErrBudget) {
		t.Errorf("a budget that is spent already: %v", err)
	}
	if _, err := os.Stat(path + "3"); err == nil {
		t.Error("a refused ledger was made")
	}
}

// A crash after the new ledger was made and before the old one was closed: the next call closes it, unless it was
// charged meanwhile.
func TestContinueAfterACrash(t *testing.T) {
	for _, charged := range []bool{false, true} {
		old := filled(t, 2)
		open, err := Open(old)
		if err != nil {
			t.Fatal(err)
		}
		entries := open.Entries()
		for i := range entries {
			entries[i].Inherited = true
		}
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		l, err := create(path, budget(), open.content.Head(), entries)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if charged {
			if err := open.Charge(charge(3, 10)); err != nil {
				t.Fatal(err)
			}
		}
		open.Close()
		l, err = Continue(old, path, budget())
		if charged != (err != nil) {
			t.Errorf("charged meanwhile: %v, continuing: %v", charged, err)
		}
		l.Close()
	}
}

func FuzzLedger(f *testing.F) {
	path := filled(f, 2)
	whole := testfile.Read(f, path)
	f.Add(whole)
	f.Add(whole[:len(whole)-5])
	f.Add([]byte("{}\n"))
	next := filepath.Join(f.TempDir(), "next.jsonl")
	l, err := Continue(path, next, budget())
	if err != nil {
		f.Fatal(err)
	}
	l.Close()
	for _, p := range []string{path, next} {
		b := testfile.Read(f, p)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parse(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("unmarked error %v", err)
			}
			return
		}
		if err := c.Budget.Validate(); err != nil || c.size > len(b) || len(c.Hashes) != c.lines() {
			t.Errorf("accepted %q: %v", b, err)
		}
		if _, err := Spent(c.Budget, c.Entries); err != nil {
			t.Errorf("entries that cannot be accounted: %v", err)
		}
	})
}

// FuzzLines gets past the hashes: whatever a line says is sealed as popri would, so that its content decides. PREVIOUS
// stands for the hash of the line before.
func FuzzLines(f *testing.F) {
	first, hash := seal(budget().record(""), "")
	continuing, last := seal(budget().record(strings.Repeat("a", 64)), "")
	inherited := charge(1, 5)
	inherited.Inherited = true
	for _, record := range []func(string) any{charge(1, 10).record(0.5), inherited.record(0.5),
		func(p string) any { return continuedRecord{"continued", hash, p} }} {
		line, _ := seal(record, "PREVIOUS")
		body, _, err := unseal(line[:len(line)-1])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, false)
		f.Add(body, true)
	}
	f.Fuzz(func(t *testing.T, body []byte, continues bool) {
		whole, previous := bytes.Clone(first), hash
		if continues {
			whole, previous = bytes.Clone(continuing), last
		}
		body = bytes.ReplaceAll(body, []byte("PREVIOUS"), []byte(previous))
		if len(body) < 2 || body[len(body)-1] != '}' || bytes.ContainsRune(body, '\n') {
			return
		}
		sum := sha256.Sum256(body)
		whole = append(whole, body[:len(body)-1]...)
		whole = append(whole, hashKey+hex.EncodeToString(sum[:])+"\"}\n"...)
		c, err := parse(whole)
		if err != nil {
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "line 2") {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		for _, e := range c.Entries {
			if err := e.validate(c.Budget); err != nil || e.Inherited && !continues {
				t.Errorf("%q was accepted as %+v (%v)", body, e, err)
			}
		}
		if _, err := Spent(c.Budget, c.Entries); err != nil {
			t.Errorf("%q cannot be accounted: %v", body, err)
		}
	})
}

// A run states that the number of clients is public; a ledger of an earlier version, which says add_or_remove, is read.
func TestRelations(t *testing.T) {
	for _, relation := range []accountant.Relation{accountant.ZeroOut, accountant.AddOrRemove} {
		b := budget()
		b.Relation = relation
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		l := created(t, path, b)
		if err := l.Charge(charge(1, 10)); err != nil {
			t.Errorf("%s: %v", relation, err)
		}
		l.Close()
		if got, entries, err := Read(path); err != nil || got != b || len(entries) != 1 {
			t.Errorf("%s: read back %+v (%v)", relation, got, err)
		}
	}
}

// A refused charge that passes the budget by less than six digits show is still shown to pass it.
func TestBudgetErrorRoundsUp(t *testing.T) {
	err := &BudgetError{Path: "x", Spent: 6.50000001, After: 7.00000001, Epsilon: 7, Delta: 1e-4}
	if text := err.Error(); !strings.Contains(text, "epsilon 6.50001 is spent") ||
		!strings.Contains(text, "make it 7.00001 of 7 ") {
		t.Errorf("%q", text)
	}
}

func TestBudgetsDiffer(t *testing.T) {
	was := budget()
	if d := was.Differs(was); len(d) != 0 {
		t.Errorf("a budget differs from itself: %q", d)
	}
	is := was
	is.Epsilon, is.Clients, is.Group, is.Data, is.Unit = 3, 999, 2, strings.Repeat("a", 64), "a person"
	want := []string{"epsilon is 3, was 7", "the private data is not what it was", "number of clients is 999, was 1000",
		"clients in a group is 2, was 1", `privacy unit is "a person", was "a client is a test"`}
	if d := is.Differs(was); !slices.Equal(d, want) {
		t.Errorf("%q, want %q", d, want)
	}
	// Continuing names all that differs, and no hash or Go value.
	old := filled(t, 1)
	if _, err := Continue(old, old+"2", is); err == nil || strings.Contains(err.Error(), "aaaa") ||
		!strings.Contains(err.Error(), strings.Join(want[1:], "; ")) {
		t.Errorf("continued on other data: %v", err)
	}
}

// A ledger whose path no longer leads to the opened file takes no charge: the charge would not be found again.
func TestChargesNeedTheLedgerInItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(path string) error
		want  string
	}{
		"removed":            {func(path string) error { return os.Remove(path) }, "removed or moved"},
		"its folder removed": {func(path string) error { return os.RemoveAll(filepath.Dir(path)) }, "removed or moved"},
		"replaced by a copy": {func(path string) error {
			b, err := os.ReadFile(path)
			return errors.Join(err, os.Remove(path), os.WriteFile(path, b, 0o600))
		}, "another file"},
		"written to": {func(path string) error {
			b, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, append(b, '\n'), 0o600))
		}, "something else wrote"},
		"its head removed": {func(path string) error { return os.Remove(path + headName) }, "head"},
		"its head replaced": {func(path string) error {
			return os.WriteFile(path+headName, []byte("2 "+strings.Repeat("0", 64)+"\n"), 0o600)
		}, "head"},
	} {
		path := filepath.Join(t.TempDir(), "run", "ledger.jsonl")
		testfile.Folder(t, filepath.Dir(path))
		l := created(t, path, budget())
		if err := l.Charge(charge(1, 10)); err != nil {
			t.Fatal(err)
		}
		if err := l.Check(); err != nil {
			t.Errorf("%s: before: %v", name, err)
		}
		if err := c.spoil(path); err != nil {
			t.Fatal(err)
		}
		if err := l.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: check: %v, want %q", name, err, c.want)
		}
		if err := l.Charge(charge(2, 10)); err == nil || errors.Is(err, ErrBudget) || len(l.Entries()) != 1 {
			t.Errorf("%s: charge: %v, %d entries", name, err, len(l.Entries()))
		}
		l.Close()
	}
}
