package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// TestCompareMethods: methods are run at each ε and audited; a second call reads the runs, and the page has the
// picture.
func TestCompareMethods(t *testing.T) {
	w := testworld.Make(t)
	dir := filepath.Join(t.TempDir(), "methods")
	compare := []string{"compare-methods", "--config", w.File, "--out", dir, "--epsilon", "5,7", "--methods",
		"popri,private_evolution", "--set", "trainer.rounds=1"}
	code, out, errs := popri(t, compare...)
	if code != 0 {
		t.Fatal(errs)
	}
	for _, want := range []string{`method +privacy\.epsilon`, `popri +5 `, `private_evolution +7 `,
		"a client receives"} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "Audited: the ledgers and releases of 4 runs") {
		t.Errorf("nothing was audited: %s", errs)
	}
	page := testfile.Read(t, filepath.Join(dir, "report.html"))
	for _, want := range []string{"Audited:", "A client sends"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	_, again, errs := popri(t, compare...)
	if again != out || strings.Count(errs, "done before") != 4 {
		t.Errorf("a second call does the runs again: %s", errs)
	}
	// A ledger without its last charge is found.
	ledger := filepath.Join(dir, "popri,privacy.epsilon=5,seed=1", "ledger.jsonl")
	kept := strings.SplitAfter(string(testfile.Read(t, ledger)), "\n")
	testfile.Write(t, ledger, strings.Join(kept[:len(kept)-2], ""))
	if code, _, errs := popri(t, compare...); code == 0 {
		t.Errorf("a ledger that lost a charge passes: %s", errs)
	}
	if code, _, errs := popri(t, "compare-methods", "--methods", "absent"); code != 2 ||
		!strings.Contains(errs, "absent") {
		t.Errorf("a method that is not there: exit code %d, %s", code, errs)
	}
}
