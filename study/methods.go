package study

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/eval/downstream"
	"popri/internal/fault"
	"popri/methods"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/study/grid"
)

// Other is a run of another method with the settings of a run.
type Other struct {
	Method  string            `json:"method"`
	Run     string            `json:"run"`
	Epsilon float64           `json:"epsilon"` // that it spent
	Result  downstream.Result `json:"result"`  // of the small model trained on its text
}

// Comparison is the result of runs of other methods.
type Comparison struct {
	Others []Other `json:"others"`
	// Composed is what the run and the others spend together, for each private data set.
	Composed []ledger.Composed `json:"composed"`
}

// Results inserts the others' results into those of the run, before the row of the clients' own text.
func (c *Comparison) Results(e *evaluation.Outcome) *evaluation.Outcome {
	all := *e
	all.Results = slices.Clone(e.Results)
	at := len(all.Results)
	if i := slices.IndexFunc(all.Results,
		func(r downstream.Result) bool { return r.Key == downstream.Private }); i >= 0 {
		at = i
	}
	for _, o := range c.Others {
		all.Results = slices.Insert(all.Results, at, o.Result)
		at++
	}
	return &all
}

// OtherMethods checks that names are methods, without duplicates and without the configuration's own, and that the
// configuration is possible for each of them.
func OtherMethods(c configs.Config, names []string) error {
	known := configs.Choices("method")
	for i, name := range names {
		switch {
		case !slices.Contains(known, name):
			return fault.Userf("%q is no method; there are %q", name, known)
		case name == c.Method, slices.Contains(names[:i], name):
			return fault.Userf("the method %s is named twice", name)
		}
		other := c
		other.Method = name
		if err := other.Validate(); err != nil {
			return fault.Userf("the method %s: %w", name, err)
		}
	}
	return nil
}

// OtherRun is the folder of another method's run that is compared with the run in dir.
func OtherRun(dir, method string) string { return filepath.Join(dir, "with", method) }

// CompareMethods runs other methods with the configuration of the finished run in o.Dir, each in its own folder with
// its own ledger. Finished runs are read, and an interrupted one is resumed. As in [Ablate], runs that ask the clients
// once, and the same, read one release: that of the finished run, if it is theirs.
func CompareMethods(ctx context.Context, c configs.Config, names []string, o Options) (*Comparison, error) {
	first := o.Dir
	o.Dir, o.common = OtherRun(first, ""), new(assembly.Common)
	out, runs := &Comparison{}, []string{first}
	cells := []grid.Cell{{Name: "..", Seed: c.Seed, Config: c}} // the finished run, as seen from the folder of the others
	for _, name := range names {
		cell := grid.Cell{Name: name, Seed: c.Seed, Config: c}
		cell.Config.Method, cell.Config.Provenance = name, nil
		cells = append(cells, cell)
	}
	if !o.AskEach {
		o.asking = cells
	}
	for i, cell := range cells[1:] {
		name, dir := cell.Name, OtherRun(first, cell.Name)
		if err := matches(cell, dir); err != nil {
			return nil, err
		}
		e, err := complete(ctx, cell, i, len(names), o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		spent, err := spentBy(dir)
		if err != nil {
			return nil, err
		}
		out.Others = append(out.Others, Other{name, dir, spent, *e.Result(methods.Of(cell.Config).Name)})
		runs = append(runs, dir)
	}
	var err error
	out.Composed, err = Compose(runs)
	return out, err
}
