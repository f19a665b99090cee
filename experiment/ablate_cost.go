package experiment

import (
	"fmt"

	"popri/accountant/ledger"
	"popri/assembly"
	"popri/datasets/clients"
)

// PlannedCost composes what all cells will spend together if each makes all its releases, for each of their private data
// sets. It refuses a cell whose budget makes no sense or does not suffice. Finished cells count as if they were new.
func PlannedCost(cells []Cell) ([]ledger.Composed, error) {
	type source struct {
		private, since, collect string
		clients                 int
		seed                    uint64 // where it draws the clients
	}
	read := map[source]*clients.Population{}
	var records []ledger.Record
	for _, c := range cells {
		from := source{private: c.Config.Data.Private, since: c.Config.Data.Since, collect: c.Config.Fed.Collect,
			clients: c.Config.Data.TrainClients}
		if from.clients > 0 {
			from.seed = c.Config.Seed
		}
		if read[from] == nil {
			var err error
			if read[from], err = assembly.LoadPrivate(c.Config); err != nil {
				return nil, err
			}
		}
		r, err := expected(c, read[from])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		records = append(records, r)
	}
	return ledger.Compose(records)
}

func expected(c Cell, p *clients.Population) (ledger.Record, error) {
	b, err := assembly.Budget(c.Config, p)
	if err != nil {
		return ledger.Record{}, err
	}
	return assembly.Expect(c.Config, b, c.Name)
}
