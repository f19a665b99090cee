// Package cost says before a study what its runs will spend together, and the work that each will take.
package cost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/datasets/clients"
	"popri/methods"
	"popri/methods/target"
	"popri/run/assembly"
	"popri/study/grid"
)

// Epsilon composes what all cells will spend together if each makes all its releases, for each of their private data
// sets. It refuses a cell whose budget makes no sense or does not suffice. Finished cells count as if they were new.
// With shared, cells of one [Question] have one release.
//
// An adaptive order (h is not nil) lets few cells make all their releases. Where all cells spend alike, the number of
// releases is fixed whichever cells continue, and the result is for these releases; fixed is then true. Otherwise the
// total depends on results, and the result is the bound of all cells to their end.
func Epsilon(cells []grid.Cell, h *Halving, shared bool) (cost []ledger.Composed, fixed bool, err error) {
	type source struct {
		private, since string
		elsewhere      bool
		clients        int
		seed           uint64 // where it draws the clients
	}
	read := map[source]*clients.Population{}
	var records []ledger.Record
	for _, c := range cells {
		from := source{private: c.Config.Data.Private, since: c.Config.Data.Since, elsewhere: c.Config.Fed.Elsewhere(),
			clients: c.Config.Data.TrainClients}
		if from.clients > 0 {
			from.seed = c.Config.Seed
		}
		if read[from] == nil {
			var err error
			if read[from], err = assembly.LoadPrivate(c.Config); err != nil {
				return nil, false, err
			}
		}
		asks := c.Name
		if shared {
			asks = cmp.Or(Question(c), c.Name)
		}
		b, err := assembly.Budget(c.Config, read[from])
		var r ledger.Record
		if err == nil {
			r, err = assembly.Expect(c.Config, b, asks)
		}
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", c.Name, err)
		}
		records = append(records, r)
	}
	if h != nil {
		if fixed, err = shorten(h, records, cells); err != nil {
			return nil, false, err
		}
	}
	cost, err = ledger.Compose(records)
	return cost, fixed, err
}

// shorten cuts the records to the releases that an adaptive ablation will make: the releases of the settings that it
// keeps at each rung. It does so only if all records are alike, and reports whether they are.
func shorten(h *Halving, records []ledger.Record, cells []grid.Cell) (alike bool, err error) {
	seeds := 0
	for seeds < len(cells) && slices.Equal(cells[seeds].Values, cells[0].Values) {
		seeds++
	}
	rungs, err := h.Plan(cells, seeds)
	if err != nil {
		return false, err
	}
	first := records[0]
	if n := len(first.Entries); n > cells[0].Config.Trainer.Rounds || n > 0 && first.Entries[0].Inherited {
		return false, nil // several releases in a round, or charges of an earlier run
	}
	for _, r := range records {
		if r.Budget != first.Budget || len(r.Entries) != len(first.Entries) {
			return false, nil
		}
		for i, e := range r.Entries {
			if e.ReleaseHash = first.Entries[i].ReleaseHash; e != first.Entries[i] {
				return false, nil
			}
		}
	}
	keep := len(cells) / seeds
	for _, rung := range rungs {
		for i := rung.Keep * seeds; i < keep*seeds; i++ {
			records[i].Entries = records[i].Entries[:min(len(records[i].Entries), rung.Rounds)]
		}
		keep = rung.Keep
	}
	return true, nil
}

// asks are the keys, and the sections, that decide what a run asks the clients and with which noise.
var asks = []string{"seed", "data", "model.path", "model.dtype", "model.device", "generate.by_label", "scoring", "fed",
	"aggregate", "privacy"}

// Question is equal for runs that ask the clients for their mean embedding once and, as far as their settings tell, with
// the same noise, so that one release serves them all; "" for a run that asks in each round or for something else,
// continues another run's ledger, or does not ask here.
func Question(c grid.Cell) string {
	m := methods.Of(c.Config)
	asked, _ := m.Query(c.Config)
	if mean, _ := target.Query(c.Config); asked != mean || m.Releases(c.Config) != 1 || c.Config.Privacy.Continues != "" ||
		c.Config.Fed.Elsewhere() {
		return ""
	}
	var b strings.Builder
	for _, k := range configs.Keys() {
		section, _, _ := strings.Cut(k.Name, ".")
		if slices.Contains(asks, k.Name) || slices.Contains(asks, section) {
			value, _ := c.Config.Get(k.Name)
			fmt.Fprintln(&b, k.Name, value)
		}
	}
	return b.String()
}
