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
	for name, change := range map[string]func(*Budget, *Entry){
		"full":    func(*Budget, *Entry) {},
		"poisson": func(_ *Budget, e *Entry) { e.Sampling, e.SamplingRate, e.Cohort, e.Clients = Poisson, 0.1, 100, 100 },
		"fixed": func(b *Budget, e *Entry) {
			b.Relation, e.Sampling, e.Cohort, e.Clients = accountant.Replace, Fixed, 100, 100
		},
		"selection": func(_ *Budget, e *Entry) { e.Mechanism, e.Picks, e.Slack = accountant.Gumbel, 5, 1e-7 },
	} {
		b := budget()
		b.Epsilon = math.Inf(1)
		var each Entry
		at := func(round, copied int) Entry {
			e := charge(round, 9)
			change(&b, &e)
			e.ReleaseHash = fmt.Sprintf("%032x%032x", copied, round)
			each = e
			return e
		}
		before := []Entry{at(1, 0), at(2, 0)}
		run := func(copied int) Record {
			return Record{Budget: b, Entries: append(before[:2:2], at(3, copied), at(4, copied))}
		}
		for _, c := range []struct {
			copies []Record
			want   int
		}{
			{[]Record{run(1)}, 4}, {[]Record{run(1), run(1)}, 4}, {[]Record{run(1), run(2)}, 6}, {[]Record{run(1), run(2), run(3)}, 8},
			{[]Record{{Budget: b, Entries: before}, run(1)}, 4}, // a backup that nobody went on with
			{[]Record{{Budget: b, Entries: []Entry{before[0], at(2, 1)}}, run(2)}, 5},
		} {
			got, err := Compose(c.copies)
			if err != nil || len(got) != 1 {
				t.Fatal(name, got, err)
			}
			event := each.Event(b)
			event.Count = c.want
			want, err := Accountant(b, []Entry{each}).Epsilon([]accountant.Event{event}, b.Delta)
			if err != nil || got[0].Charges != c.want || math.Abs(got[0].Epsilon-want) > 1e-6*want {
				t.Errorf("%s, %d copies: %d charges, ε = %g; want %d, %g (%v)", name, len(c.copies), got[0].Charges,
					got[0].Epsilon, c.want, want, err)
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
