package ledger

import (
	"encoding/json"
	"fmt"
	"strings"

	"popri/accountant"
	"popri/internal/exactjson"
	"popri/internal/numeric"
	"popri/internal/quote"
)

// Composed is what several ledgers on the same private data spend together.
type Composed struct {
	Data    string `json:"data"`    // the data's key, as in [Budget.Data]; "" if it is not known
	Ledgers []int  `json:"ledgers"` // which of the given ones, by number from 0
	// Epsilon is spent by all charges at Delta, the largest of the ledgers' δ: a smaller one would be claimed of a run
	// that does not state it. It is for Group clients together, the largest of the ledgers' groups.
	Epsilon    float64             `json:"epsilon"`
	Delta      float64             `json:"delta"`
	Group      int                 `json:"group"`
	Relation   accountant.Relation `json:"relation"`
	Accountant string              `json:"accountant,omitempty"`
	Charges    int                 `json:"charges"` // each once, even of a ledger and one that continues it
	// Seeded says that a ledger's noise was seeded: nobody is protected, whatever Epsilon says.
	Seeded bool `json:"insecure_seeded_noise"`
	// IfShared says that the ledgers are of several data sets, and that the figure holds for a client who is in all of
	// them. Data sets are distinguished by their content: an edited copy, or another range of dates, can have the same
	// clients.
	IfShared bool `json:"if_clients_are_shared,omitempty"`
	// Unknown says why there is no figure; "" where there is one.
	Unknown string `json:"unknown,omitempty"`
}

// Compose groups ledgers by their private data and composes the charges of each group. A charge that several ledgers
// hold, such as a continued ledger and its successor, counts once. If there are several groups, the last result
// composes all charges, for clients who are in all of the data sets.
//
// Ledgers that state [accountant.AddOrRemove] and ledgers that state [accountant.ZeroOut] are composed under the
// latter, which has the same bounds. Compose gives no figure where relations or privacy units differ otherwise, or
// where the data are not known.
func Compose(records []Record) ([]Composed, error) {
	var out []Composed
	at := map[string]int{}
	for i, r := range records {
		k, ok := at[r.Budget.Data]
		if !ok {
			k = len(out)
			at[r.Budget.Data] = k
			out = append(out, Composed{Data: r.Budget.Data})
		}
		out[k].Ledgers = append(out[k].Ledgers, i)
	}
	for k := range out {
		if err := out[k].compose(numeric.Pick(records, out[k].Ledgers)); err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
	}
	if len(out) < 2 {
		return out, nil
	}
	all := Composed{IfShared: true, Ledgers: numeric.Indices(len(records))}
	if err := all.compose(records); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return append(out, all), nil
}

func (c *Composed) compose(records []Record) error {
	first := records[0].Budget
	c.Relation = first.Relation
	for _, r := range records {
		c.Delta, c.Group = max(c.Delta, r.Budget.Delta), max(c.Group, r.Budget.Group, 1)
		c.Seeded = c.Seeded || r.Budget.InsecureSeededNoise
		switch {
		case c.Data == "" && !c.IfShared:
			c.Unknown = "which private data it is on is not known"
		case r.Budget.Unit != first.Unit:
			c.Unknown = fmt.Sprintf("the privacy units differ: %q and %q", first.Unit, r.Budget.Unit)
		case r.Budget.Relation == c.Relation:
		case r.Budget.Relation == accountant.Replace || c.Relation == accountant.Replace:
			c.Unknown = fmt.Sprintf("the relations differ: %q and %q", c.Relation, r.Budget.Relation)
		default:
			c.Relation = accountant.ZeroOut
		}
	}
	var entries []Entry
	var events []accountant.Event
	for _, e := range union(records) {
		b := e.budget
		b.Group = c.Group
		event := e.Event(b)
		event.Count = e.count
		entries, events = append(entries, e.Entry), append(events, event)
	}
	c.Charges = len(entries)
	if c.Unknown != "" {
		return nil
	}
	a := Accountant(Budget{Relation: c.Relation}, entries)
	c.Accountant = a.Name()
	var err error
	c.Epsilon, err = a.Epsilon(events, c.Delta)
	return err
}

// budgeted is a charge with the budget that it was made under.
type budgeted struct {
	Entry
	budget Budget
	count  int // of releases, see releases
}

// union joins the charges of several ledgers. If ledgers share a charge, the result holds it as often as the ledger
// that holds it most often: a run that was copied has not asked twice. The nodes of a tree are counted over all ledgers
// that hold a part of it, which copies of a run do that each went on: those whose tree begins with the same charge,
// since a tree's clients are put in their leaves when it begins.
func union(records []Record) []budgeted {
	var out []budgeted
	have, trees := map[Entry]int{}, map[Entry]*nodes{}
	for _, r := range records {
		seen := map[Entry]int{}
		var first, last Entry
		for _, e := range r.Entries {
			begins := e.begins(last)
			last = e
			e.Inherited = false
			if begins {
				first = e
			}
			if seen[e]++; seen[e] <= have[e] {
				continue
			}
			have[e]++
			if trees[first] == nil {
				trees[first] = &nodes{}
			}
			out = append(out, budgeted{e, r.Budget, trees[first].add(e)})
		}
	}
	return out
}

// Words states the result in a sentence. what names the ledgers, such as "runs".
func (c Composed) Words(what string) string {
	who := quote.Count(len(c.Ledgers), strings.TrimSuffix(what, "s"), what)
	if c.IfShared {
		who = "If a client is in all of these data sets, which nobody can see from the ledgers: " + who
	}
	if c.Unknown != "" {
		return fmt.Sprintf("%s cannot be composed: %s", who, c.Unknown)
	}
	releases := quote.Count(c.Charges, "release", "releases, each counted once")
	data := " on the same private data"
	if c.IfShared {
		data = ""
	}
	text := fmt.Sprintf("%s%s, together: ε = %s at δ = %g, the largest δ of theirs (%s; %s)",
		who, data, accountant.RoundUp(c.Epsilon, 4), c.Delta, releases, c.Accountant)
	if c.Group > 1 {
		text += fmt.Sprintf(", for up to %d clients together", c.Group)
	}
	if c.Seeded {
		text += "; noise was seeded (privacy.insecure_seeded_noise): nobody is protected"
	}
	return text
}

// composedJSON is the form on disk and on standard output: an infinite ε is "inf", and an unknown one is left out.
type composedJSON struct {
	*plainComposed
	Epsilon *exactjson.Float `json:"epsilon,omitempty"`
}

type plainComposed Composed // without the methods

// MarshalJSON implements json.Marshaler.
func (c Composed) MarshalJSON() ([]byte, error) {
	j := composedJSON{plainComposed: (*plainComposed)(&c)}
	if c.Unknown == "" {
		j.Epsilon = new(exactjson.Float(c.Epsilon))
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Composed) UnmarshalJSON(b []byte) error {
	*c = Composed{}
	j := composedJSON{plainComposed: (*plainComposed)(c)}
	err := json.Unmarshal(b, &j)
	if j.Epsilon != nil {
		c.Epsilon = float64(*j.Epsilon)
	}
	return err
}
