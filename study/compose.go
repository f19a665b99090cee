package study

import (
	"path/filepath"

	"popri/accountant/ledger"
	"popri/internal/rundir"
)

// spentBy is the ε that the run in dir has spent.
func spentBy(dir string) (float64, error) {
	budget, entries, err := ledger.Read(filepath.Join(dir, rundir.Ledger))
	if err != nil {
		return 0, err
	}
	return ledger.Spent(budget, entries)
}

// Compose returns what runs spend together, for each of their private data sets. A run without a ledger is an error.
func Compose(runs []string) ([]ledger.Composed, error) {
	records := make([]ledger.Record, len(runs))
	for i, dir := range runs {
		var err error
		if records[i], err = ledger.Inspect(filepath.Join(dir, rundir.Ledger)); err != nil {
			return nil, err
		}
	}
	return ledger.Compose(records)
}

// compose computes what all runs spent together, also those that were dropped or failed after a release.
func (a *Ablation) compose(dir string) (err error) {
	var runs []string
	for _, f := range a.Failed {
		if run := filepath.Join(dir, f.Name); rundir.Exists(run) {
			runs = append(runs, run)
		}
	}
	for _, d := range a.Dropped {
		runs = append(runs, filepath.Join(dir, d.Name))
	}
	for _, row := range a.Rows {
		runs = append(runs, row.Runs...)
	}
	a.Composed, err = Compose(runs)
	return err
}
