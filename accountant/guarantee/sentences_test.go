package guarantee

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/testkit/testfile"
)

// What was spent is said in words, and a bound is never rounded down.
func TestSpending(t *testing.T) {
	entry := func(inherited bool) ledger.Entry { return ledger.Entry{Inherited: inherited, Sampling: ledger.Full} }
	for want, c := range map[string]struct {
		spent   float64
		entries []ledger.Entry
		seeded  bool
	}{
		"Nothing of ε = 7 (δ = 0.0001) is spent yet.": {},
		"All of ε = 7 was spent by the one release (δ = 0.0001), a noised sum of 998 clients' vectors.": {7,
			[]ledger.Entry{entry(false)}, false},
		"ε = 3.101 of 7 was spent by the one release (δ = 0.0001), a noised sum of 998 clients' vectors.": {3.10001,
			[]ledger.Entry{entry(false)}, false},
		"All of ε = 7 was spent by 2 releases (δ = 0.0001), each a noised sum of 998 clients' vectors.": {6.9999,
			[]ledger.Entry{entry(false), entry(false)}, false},
		"ε = 5 of 7 was spent by 2 releases, 1 of them of earlier runs on the same clients (δ = 0.0001), each a noised sum of 998 clients' vectors.": {5,
			[]ledger.Entry{entry(true), entry(false)}, false},
		"ε = 5 of 7 was spent by the one release of an earlier run on the same clients (δ = 0.0001), a noised sum of 998 clients' vectors.": {5,
			[]ledger.Entry{entry(true)}, false},
		"No privacy budget holds: this run protects nobody.": {5, []ledger.Entry{entry(false)}, true},
	} {
		f := Facts{Spent: c.spent}
		f.Record.Budget = ledger.Budget{Epsilon: 7, Delta: 1e-4, Clients: 998, InsecureSeededNoise: c.seeded}
		f.Record.Entries = c.entries
		if got := f.Spending(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// What is said of clients behind two aggregators depends on whether they proved anything.
func TestProved(t *testing.T) {
	for proved, want := range map[bool]string{false: "Nobody proved that vectors are bounded",
		true: "Clients proved that no value is larger"} {
		f := Facts{Elsewhere: true, Aggregated: true, Proved: proved}
		f.Record.Budget = ledger.Budget{Epsilon: 7, Delta: 1e-4, Clients: 998}
		if said := strings.Join(f.Warnings(), "\n"); !strings.Contains(said, want) {
			t.Errorf("proved %v: %s", proved, said)
		}
	}
}

// The sentence about refused uploads stands in the statement, with the sums over all rounds.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	if r, err := readRefusals(dir); r != nil || err != nil {
		t.Errorf("without rounds: %v, %v", r, err)
	}
	want := map[int]string{1: "refused no upload", 2: "refused 1 upload, of which",
		3: "refused 5 uploads, of which no sum has anything: " +
			"1 whose proofs did not hold, 4 that were no valid reports"}
	for round, one := range []Refusals{{}, {Unproved: 1}, {Invalid: 4}} {
		folder := rundir.Round(dir, round+1)
		testfile.Folder(t, folder)
		if err := atomicfile.WriteJSON(filepath.Join(folder, rundir.Refusals), one); err != nil {
			t.Fatal(err)
		}
		r, err := readRefusals(dir)
		if err != nil {
			t.Fatal(err)
		}
		f := Facts{Refused: r}
		f.Record.Budget = ledger.Budget{Epsilon: 7, Delta: 1e-4, Clients: 998}
		f.Record.Entries = []ledger.Entry{{Sigma: 1}}
		if said := strings.Join(f.Statement(), " "); !strings.Contains(said, want[round+1]) {
			t.Errorf("after %d rounds: %s\nwant %q", round+1, said, want[round+1])
		}
	}
	testfile.Write(t, filepath.Join(rundir.Round(dir, 2), rundir.Refusals), "no JSON")
	if _, err := readRefusals(dir); err == nil {
		t.Error("a damaged file is read")
	}
}

// A configuration that cannot be read lacks warnings, and the guarantee says so.
func TestUnreadConfiguration(t *testing.T) {
	dir := t.TempDir()
	l, err := ledger.Create(filepath.Join(dir, rundir.Ledger),
		ledger.Budget{Epsilon: 7, Delta: 1e-4, Mechanism: "gaussian", Unit: "a client is one person",
			Relation: accountant.ZeroOut, Clients: 998})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, rundir.Config), []byte("trainer: {rounds: -1}\n")); err != nil {
		t.Fatal(err)
	}
	f, err := Read(dir)
	if err != nil || len(f.Warnings()) == 0 || !strings.Contains(f.Warnings()[0], "trainer.rounds") {
		t.Errorf("%v: %q", err, f.Warnings())
	}
}
