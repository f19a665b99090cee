package ledger

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/accountant"
)

// recorded is a ledger of some charges whose releases are its own.
func recorded(b Budget, name int, sigmas ...float64) Record {
	r := Record{Budget: b}
	for i, sigma := range sigmas {
		e := charge(i+1, sigma)
		e.ReleaseHash = fmt.Sprintf("%032x%032x", name, i)
		r.Entries = append(r.Entries, e)
	}
	return r
}

// Three runs of ε = 7 on the same data spend what one run of three times the rounds would.
func TestComposeAddsUpRunsOnTheSameData(t *testing.T) {
	b := budget()
	sigma, err := (accountant.Plan{Each: accountant.Event{Count: 1}}).Sigma(accountant.Exact{}, 7, b.Delta)
	if err != nil {
		t.Fatal(err)
	}
	other, unknown := b, b
	other.Data, unknown.Data = "d2", ""
	smaller := b
	smaller.Delta = 1e-6
	got, err := Compose([]Record{recorded(b, 1, sigma), recorded(other, 2, sigma), recorded(smaller, 3, sigma),
		recorded(unknown, 4, sigma), recorded(b, 5, sigma)})
	if err != nil || len(got) != 4 {
		t.Fatalf("%+v (%v)", got, err)
	}
	five, _ := accountant.Exact{}.Epsilon([]accountant.Event{{Sigma: sigma, Count: 5}}, b.Delta)
	if c := got[3]; !c.IfShared || c.Epsilon != five || len(c.Ledgers) != 5 ||
		!strings.Contains(c.Words("runs"), "If a client is in all of these data sets") {
		t.Errorf("a client of all runs: %+v, want epsilon %g", c, five)
	}
	want, _ := accountant.Exact{}.Epsilon([]accountant.Event{{Sigma: sigma, Count: 3}}, b.Delta)
	if c := got[0]; c.Epsilon != want || c.Delta != b.Delta || c.Charges != 3 ||
		!reflect.DeepEqual(c.Ledgers, []int{0, 2, 4}) || c.Unknown != "" {
		t.Errorf("three runs: %+v, want epsilon %g", c, want)
	}
	if c := got[1]; !(math.Abs(c.Epsilon-7) < 1e-6) || !reflect.DeepEqual(c.Ledgers, []int{1}) {
		t.Errorf("a run on other data: %+v", c)
	}
	if c := got[2]; c.Unknown == "" || !strings.Contains(c.Words("runs"), "1 run cannot be composed") {
		t.Errorf("a run on unknown data: %+v", c)
	}
	if text := got[0].Words("runs"); !strings.Contains(text, "3 runs") ||
		!strings.Contains(text, "ε = "+accountant.RoundUp(want, 4)) ||
		!strings.Contains(text, "δ = 0.0001, the largest") {
		t.Errorf("%q", text)
	}
	for _, c := range append(got, Composed{Data: "x", Ledgers: []int{0}, Epsilon: math.Inf(1)}) {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back Composed
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%s is read back as %+v (%v)", text, back, err)
		}
	}
}

// What a ledger inherited is not counted again next to the one that it continues.
func TestComposeCountsInheritedChargesOnce(t *testing.T) {
	old := filled(t, 2)
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, err := Continue(old, path, budget())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Charge(charge(1, 10)); err != nil {
		t.Fatal(err)
	}
	want, err := l.Spent()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	before, err := Inspect(old)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range [][]Record{{before, after}, {after, before}, {after, after}, {after}} {
		got, err := Compose(order)
		if err != nil || len(got) != 1 || got[0].Charges != len(after.Entries) || got[0].Epsilon != want {
			t.Errorf("%d ledgers: %+v (%v), want epsilon %g", len(order), got, err, want)
		}
	}
}

// TestForkedRoundsAddUp: copies of an interrupted run that each went on, or a restored backup next to the run, spend the
// rounds before the copy once and those after it each for itself, whatever the sampling. Only the same bytes count once.
func TestForkedRoundsAddUp(t *testing.T) {
	for _, e := range []Entry{{Sampling: Full}, {Sampling: Poisson, SamplingRate: 0.1}, {Sampling: Fixed, Cohort: 100},
		{Sampling: Full, Mechanism: accountant.Gumbel, Picks: 5, Slack: 1e-7}} {
		b := budget()
		if e.Sigma, e.Sensitivity = 9, 1; e.Sampling == Fixed {
			b.Relation = accountant.Replace
		}
		ledgerOf := func(copied int, more ...int) Record { // two common rounds and others
			r := Record{Budget: b}
			for i, by := range append([]int{0, 0}, more...) {
				e.Round, e.ReleaseHash = i+1, fmt.Sprintf("%032x%032x", by*copied, i)
				r.Entries = append(r.Entries, e)
			}
			return r
		}
		for want, copies := range map[int][]Record{3: {ledgerOf(1, 1), ledgerOf(1, 1), ledgerOf(0)}, // a backup that stayed one
			4: {ledgerOf(1, 1), ledgerOf(2, 1)}, 8: {ledgerOf(1, 1, 1), ledgerOf(2, 1, 1), ledgerOf(3, 1, 1)}} {
			got, err := Compose(copies)
			if err != nil {
				t.Fatal(err)
			}
			event := e.Event(b)
			event.Count = want
			epsilon, err := Accountant(b, []Entry{e}).Epsilon([]accountant.Event{event}, b.Delta)
			if err != nil || len(got) != 1 || got[0].Charges != want || math.Abs(got[0].Epsilon-epsilon) > 1e-6*epsilon {
				t.Errorf("%s %s, %d copies: %+v, want ε = %g of %d (%v)", e.Sampling, e.Mechanism, len(copies), got, epsilon,
					want, err)
			}
		}
	}
}

func TestComposeMixedStatements(t *testing.T) {
	b := budget()
	earlier, replace, unit, group, seeded := b, b, b, b, b
	earlier.Relation, replace.Relation, unit.Unit, group.Group, seeded.InsecureSeededNoise = accountant.AddOrRemove,
		accountant.Replace, "a text", 2, true
	for name, c := range map[string]struct {
		second   Budget
		unknown  string
		epsilon  accountant.Event
		contains string
	}{
		"an earlier version's": {earlier, "", accountant.Event{Sigma: 5, Count: 2}, ""},
		"replacement":          {replace, "relations differ", accountant.Event{}, "cannot be composed"},
		"another unit":         {unit, "privacy units differ", accountant.Event{}, "cannot be composed"},
		"a group":              {group, "", accountant.Event{Sigma: 5, Group: 2, Count: 2}, "up to 2 clients"},
		"seeded":               {seeded, "", accountant.Event{Sigma: 5, Count: 2}, "nobody is protected"},
	} {
		got, err := Compose([]Record{recorded(b, 1, 5), recorded(c.second, 2, 5)})
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %+v (%v)", name, got, err)
		}
		if c.unknown != "" {
			if !strings.Contains(got[0].Unknown, c.unknown) {
				t.Errorf("%s: %+v", name, got[0])
			}
		} else if want,
			_ := (accountant.Exact{}).Epsilon([]accountant.Event{c.epsilon}, b.Delta); got[0].Epsilon != want ||
			got[0].Relation != accountant.ZeroOut {
			t.Errorf("%s: %+v, want epsilon %g", name, got[0], want)
		}
		if !strings.Contains(got[0].Words("runs"), c.contains) {
			t.Errorf("%s: %q", name, got[0].Words("runs"))
		}
	}
}
