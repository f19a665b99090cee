// Package study does many runs and compares them: grids of settings ([Ablate]), with successive halving if asked for,
// on this machine or as the tasks of a cluster ([RunTask]). It states what all runs spend together, because anyone who
// chooses among runs by their results spends that.
package study

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/accountant/guarantee"
	"popri/accountant/ledger"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/show/series"
	"popri/study/cost"
	"popri/study/grid"
)

// File is the file of an ablation's figures.
const File = rundir.Ablation

// Ablation is the result of an ablation.
type Ablation struct {
	Axes  []grid.Axis `json:"axes"`
	Seeds []uint64    `json:"seeds"`
	Rows  []Row       `json:"rows"` // of the runs that did not fail; a combination of which all did has none
	// Failed are the runs that failed. The same ablation tries them again.
	Failed []FailedRun `json:"failed,omitempty"`
	// Adaptive says which settings an adaptive order let continue, and Dropped are the runs that it did not; nil for a
	// plain order.
	Adaptive *Halved      `json:"adaptive,omitempty"`
	Dropped  []DroppedRun `json:"dropped,omitempty"`
	// Composed is the total that all runs spend, for each private data set: the price of choosing among them.
	Composed []ledger.Composed `json:"composed"`

	failures []error
}

// FailedRun is a run without a result.
type FailedRun struct {
	Name   string   `json:"name"`
	Values []string `json:"values"` // one of each axis
	Seed   uint64   `json:"seed"`
	Error  string   `json:"error"`
}

// Options say where an ablation is stored and who follows its progress.
type Options struct {
	Dir string
	// Begin is called for each cell; done says that an earlier call finished it.
	Begin func(i, n int, c grid.Cell, done bool)
	// Failed is called for each run that fails.
	Failed func(err error)
	// Elsewhere names cells that failed where they were run. They are not run here. The reason may be made
	// of clients' texts, so it stays in the jobs' folder.
	Elsewhere map[string]bool
	// Listen makes a listener to the runs, as in [run.Options].
	Listen func([]series.Series) rounds.Events
	// Trackers show the runs' figures, as in [run.Options], and Warn says which of them fail, and of a task whether
	// another version of the program planned it.
	Trackers []string
	Warn     func(text string)
	// Progress makes the listener to the evaluation of a cell.
	Progress func() evaluator.Progress
	Title    string // of the page; "" for the names of what varies
	// Notes gives sentences for the page when all runs are done; may be nil.
	Notes   func(a *Ablation) ([]string, error)
	Command string // what made the ablation, to be typed again; "" if it is not known
	// AskEach has each run ask the clients itself. Otherwise runs that ask once, and the same, read one release.
	AskEach bool
	asking  []grid.Cell      // whose releases can be read again
	common  *assembly.Common // what the runs share
	// Halving is the adaptive order; nil runs all cells to their end. Say is told what it decides.
	Halving *cost.Halving
	Say     func(text string)
}

func (o Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(fmt.Sprintf(format, args...))
	}
}

// Ablate does the runs of cells, each in its own folder under o.Dir. A run that fails is noted, and the others are
// done; a mistake of the user's, a budget that does not suffice and an interruption end the ablation. It returns the
// figures and writes them to ablation.json and report.html. Finished cells are read, and an interrupted cell is
// resumed. Cells that ask the clients once, and the same ([cost.Question]), read the release of the first of them, so
// that they differ by their settings alone and cost the clients one release. A cell is evaluated by ε = 0, its own text
// and ε = ∞ only; figures that cells share are computed once.
func Ablate(ctx context.Context, axes []grid.Axis, cells []grid.Cell, o Options) (*Ablation, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fault.Userf("the ablation's folder cannot be made: %w", err)
	}
	if err := Unused(o.Dir, cells); err != nil { // before hours are spent on the first
		return nil, err
	}
	for _, name := range []string{File, rundir.Report} { // which also removes what a killed process left
		if err := atomicfile.Check(filepath.Join(o.Dir, name)); err != nil {
			return nil, fault.Userf("%w", err)
		}
	}
	o.common = new(assembly.Common)
	if !o.AskEach {
		o.asking = cells
	}
	a := &Ablation{Axes: axes}
	for _, c := range cells {
		if !slices.Contains(a.Seeds, c.Seed) {
			a.Seeds = append(a.Seeds, c.Seed)
		}
	}
	if !rundir.Has(o.Dir, File) { // its runs say from the first one on that they are among others
		if err := atomicfile.WriteJSON(filepath.Join(o.Dir, File), a); err != nil {
			return nil, err
		}
	}
	going := cells
	if o.Halving != nil {
		var err error
		if going, err = a.halve(ctx, cells, o); err != nil {
			return nil, err
		}
	}
	evaluated := map[string]*evaluation.Outcome{}
	for i, c := range going {
		e, err := complete(ctx, c, i, len(going), o)
		if err != nil {
			if err = a.failed(c, err, o); err != nil {
				return nil, err
			}
			continue
		}
		evaluated[c.Name] = e
	}
	if len(evaluated) == 0 {
		return nil, errors.Join(a.failures...)
	}
	for combination := range slices.Chunk(cells, len(a.Seeds)) { // its seeds are side by side
		var done []grid.Cell
		var theirs []*evaluation.Outcome
		for _, c := range combination {
			if e := evaluated[c.Name]; e != nil {
				done, theirs = append(done, c), append(theirs, e)
			}
		}
		if len(done) == 0 {
			continue
		}
		row, err := newRow(done, theirs, o.Dir)
		if err != nil {
			return nil, err
		}
		a.Rows = append(a.Rows, row)
	}
	if err := a.compose(o.Dir); err != nil {
		return nil, err
	}
	if err := atomicfile.WriteJSON(filepath.Join(o.Dir, File), a); err != nil {
		return nil, err
	}
	return a, a.writeReport(o, cells)
}

// failed notes a run that failed. It returns an error that ends the ablation.
func (a *Ablation) failed(c grid.Cell, err error, o Options) error {
	err = fmt.Errorf("%s: %w", c.Name, err)
	if fault.IsResumable(err) || fault.IsUser(err) || errors.Is(err, ledger.ErrBudget) {
		return err
	}
	a.failures = append(a.failures, err)
	a.Failed = append(a.Failed, FailedRun{c.Name, c.Values, c.Seed, err.Error()})
	if o.Failed != nil {
		o.Failed(err)
	}
	return nil
}

// Keys joins the names of the axes.
func (a *Ablation) Keys(separator string) string {
	return strings.Join(numeric.Map(a.Axes, func(x grid.Axis) string { return x.Key }), separator)
}

// spentBy is the ε that the run in dir has spent.
func spentBy(dir string) (float64, error) {
	budget, entries, err := ledger.Read(filepath.Join(dir, rundir.Ledger))
	if err != nil {
		return 0, err
	}
	return ledger.Spent(budget, entries)
}

// compose computes what all runs in the folder spent together, and writes it into their reports: also runs that were
// dropped or failed after a release, and runs of earlier grids, because anyone who chose this grid may have seen them.
func (a *Ablation) compose(dir string) error {
	runs, err := rundir.RunsIn(dir)
	if err == nil {
		a.Composed, err = guarantee.Compose(runs)
	}
	for _, run := range runs { // what it says of all runs, it said before the later ones were
		if err == nil && rundir.Has(run, rundir.Report) {
			_, err = reporting.Write(run)
		}
	}
	return err
}

// Earlier is the number of runs in an ablation's folder that are none of its cells. They count in what all runs spend.
func Earlier(dir string, cells []grid.Cell) (n int, err error) {
	runs, err := rundir.RunsIn(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, run := range runs {
		if !slices.ContainsFunc(cells, func(c grid.Cell) bool { return c.Name == filepath.Base(run) }) {
			n++
		}
	}
	return n, err
}
