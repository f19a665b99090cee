package study

import (
	"cmp"
	"fmt"
	"path/filepath"

	"gonum.org/v1/gonum/stat"

	"popri/eval/downstream"
	"popri/internal/numeric"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/rounds"
	"popri/run/evaluation"
	"popri/run/reporting"
	"popri/study/grid"
)

// Summary is a figure over seeds.
type Summary struct {
	Mean   float64   `json:"mean"`
	SD     *float64  `json:"sd,omitempty"` // with n−1; nil for a single seed
	Values []float64 `json:"values"`       // by seed
}

func summarize(values []float64) Summary {
	mean, sd := stat.MeanStdDev(values, nil)
	if len(values) < 2 {
		return Summary{Mean: mean, Values: values}
	}
	return Summary{mean, &sd, values}
}

// Row is one combination of values.
type Row struct {
	Values     []string `json:"values"` // one of each axis
	Base       bool     `json:"base,omitempty"`
	Accuracy   Summary  `json:"accuracy"` // of the small model trained on the runs' text
	Perplexity *Summary `json:"perplexity,omitempty"`
	MacroF1    *Summary `json:"macro_f1,omitempty"` // of a classification, instead of the perplexity
	Public     Summary  `json:"public"`             // accuracy at ε = 0
	Private    *Summary `json:"private,omitempty"`  // accuracy at ε = ∞; nil without eval.reference_private
	// Validation is the loss of a token on the validation clients, by which the best weights of each small model were
	// chosen, and by which a setting should be: the test clients are not for choices.
	Validation *Summary `json:"validation_loss,omitempty"`
	// GapClosed is nil where the gap of a seed is empty, and without eval.reference_private.
	GapClosed *Summary `json:"gap_closed,omitempty"`
	// FID is the distance of the runs' newest samples from the validation clients; nil where a run has none.
	FID     *Summary `json:"fid,omitempty"`
	Epsilon Summary  `json:"epsilon"` // spent by each run
	Seeds   []uint64 `json:"seeds"`   // of the runs that did not fail
	Runs    []string `json:"runs"`    // their folders
}

func newRow(cells []grid.Cell, results []*evaluation.Outcome, dir string) (Row, error) {
	row := Row{Values: cells[0].Values, Base: cells[0].Base}
	values := map[string][]float64{}
	add := func(key string, v *float64) {
		if v != nil {
			values[key] = append(values[key], *v)
		}
	}
	for i, e := range results {
		path := filepath.Join(dir, cells[i].Name)
		popri, zero, infinite := e.Result(methods.Of(cells[i].Config).Name), e.Result(downstream.Public),
			e.Result(downstream.Private)
		if popri == nil || zero == nil || (infinite == nil) != (results[0].Result(downstream.Private) == nil) {
			return row, fmt.Errorf("%s lacks results: remove it to have it made again",
				filepath.Join(path, rundir.Eval))
		}
		spent, failed := spentBy(path)
		distance, err := distanceOf(path)
		if err = cmp.Or(failed, err); err != nil {
			return row, err
		}
		add("accuracy", &popri.Accuracy)
		add("macro_f1", popri.MacroF1)
		if popri.MacroF1 == nil {
			add("perplexity", &popri.Perplexity)
		}
		add("validation", lossAt(popri))
		add("public", &zero.Accuracy)
		if infinite != nil {
			add("private", &infinite.Accuracy)
		}
		add("gap_closed", popri.GapClosed)
		add("fid", distance)
		add("epsilon", &spent)
		row.Runs, row.Seeds = append(row.Runs, path), append(row.Seeds, cells[i].Seed)
	}
	all := func(key string) *Summary { // nil where a seed lacks the figure
		if len(values[key]) < len(results) {
			return nil
		}
		return new(summarize(values[key]))
	}
	row.Accuracy, row.Public, row.Epsilon = *all("accuracy"), *all("public"), *all("epsilon")
	row.Perplexity, row.MacroF1, row.Private = all("perplexity"), all("macro_f1"), all("private")
	row.GapClosed, row.FID, row.Validation = all("gap_closed"), all("fid"), all("validation")
	return row, nil
}

// lossAt is the loss on the validation clients of the weights that were kept; nil if it was not measured.
func lossAt(r *downstream.Result) *float64 {
	for _, p := range r.Curve {
		if p.Step == r.BestStep {
			return &p.Loss
		}
	}
	return nil
}

// distanceOf is the Fréchet distance of a run's newest samples from the validation clients, nil if it is not known.
func distanceOf(run string) (*float64, error) {
	rounds, err := rounds.ReadMetrics(run)
	if err != nil || len(rounds) == 0 {
		return nil, err
	}
	return rounds[len(rounds)-1].Get("fid"), nil
}

// Costs are the costs of the first run of each row.
func (a *Ablation) Costs() ([]reporting.Cost, error) {
	return numeric.TryMap(a.Rows, func(row Row) (reporting.Cost, error) { return reporting.CostOf(row.Runs[0]) })
}
