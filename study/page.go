package study

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/run"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/show/report"
	"popri/study/grid"
)

// The figures of an ablation's page, the one that is shown first at the front.
var ablationFigures = []report.GridFigure{
	{Key: "gap_closed", Name: "Gap closed", Unit: "%", Scale: 100, Decimals: 1, Better: 1},
	{Key: "accuracy", Name: "Accuracy", Unit: "%", Scale: 100, Decimals: 2, Better: 1},
	{Key: "perplexity", Name: "Perplexity", Scale: 1, Decimals: 1, Better: -1},
	{Key: "macro_f1", Name: "Macro F1", Unit: "%", Scale: 100, Decimals: 1, Better: 1},
	{Key: validationKey, Name: "Validation loss", Scale: 1, Decimals: 4, Better: -1},
	{Key: distanceKey, Name: "Released distance", Scale: 1, Decimals: 3, Better: -1},
	{Key: "fid", Name: "FID", Scale: 1, Decimals: 4, Better: -1},
	{Key: "epsilon", Name: "ε spent", Scale: 1, Decimals: 3, Better: -1, Bound: true},
	{Key: "seconds", Name: "Time", Unit: "s", Scale: 1, Decimals: 1, Better: -1},
	{Key: sentKey, Name: "A client sends", Unit: "KiB", Scale: 1.0 / 1024, Decimals: 1, Better: -1},
}

// Keys of figures that are no result of the evaluation.
const (
	distanceKey = "distance" // of the samples' mean embedding to the released one
	sentKey     = "sent"     // bytes that a client sends in all rounds

	validationKey = "validation" // of the small model, by which settings are chosen
)

// writeReport writes the page with the grid, the guarantee of the first run, and what all runs spend together.
func (a *Ablation) writeReport(o Options, cells []grid.Cell) error {
	dir := o.Dir
	first, err := reporting.Of(a.Rows[0].Runs[0])
	if err != nil {
		return err
	}
	title := "Ablation over " + a.Keys(", ")
	if grid.OneByOne(a.Axes) {
		title = "One change at a time"
	}
	g := report.Grid{Title: cmp.Or(o.Title, title), Command: o.Command,
		Finished: time.Now().UTC().Truncate(time.Second), Subtitle: fmt.Sprintf("%s with a result, %s",
			quote.Count(len(a.Rows), "setting", ""), quote.Count(len(a.Seeds), "seed", "")),
		Statement: first.Privacy.Statement, Warnings: first.Privacy.Warnings, Versions: first.Versions, Seeds: a.Seeds,
		Figures: ablationFigures, Choice: validationKey,
		Notes: []string{
			fmt.Sprintf("The guarantee and the settings shown belong to the run %s. Every run spends its own "+
				"budget on the same clients: publishing all of them, or choosing the best one, spends more than one "+
				"of them states.", a.Rows[0].Runs[0]),
			"Accuracy, perplexity or macro F1, and the gap closed belong to the small model that was trained on a " +
				"run's text, on the test clients. The best setting is chosen by its loss on the validation clients, " +
				"who are not protected either. FID is the Fréchet distance of the newest round's samples from the " +
				"validation clients; the released distance is from their mean embedding to the clients' noised one. " +
				"The time is of a run's stages without its evaluation, of which runs share parts, and without the clients' part: " +
				"votes, and a small model's training at the clients, take time that no page tells."}}
	g.Composed = numeric.Map(a.Composed, func(c ledger.Composed) string { return c.Words("runs") + "." })
	if len(a.Composed) == 1 && a.Composed[0].Unknown == "" {
		if c := a.Composed[0]; c.Seeded {
			g.Together = "no bound"
		} else {
			g.Together = "ε = " + accountant.RoundUp(c.Epsilon, 4)
		}
	}
	if o.Notes != nil {
		notes, err := o.Notes(a)
		if err != nil {
			return err
		}
		g.Notes = append(notes, g.Notes...)
	}
	if a.Adaptive != nil {
		g.Rungs = a.rungs()
		g.Notes = append(g.Notes, a.adaptiveNote())
	}
	var varied []string
	for _, x := range a.Axes {
		g.Axes = append(g.Axes, report.GridAxis{Key: x.Key, Values: x.Values, Changes: grid.OneByOne(a.Axes)})
		varied = append(varied, strings.Split(x.Key, "+")...)
	}
	for _, s := range first.Settings {
		if !slices.Contains(varied, s.Key) {
			g.Settings = append(g.Settings, s)
		}
	}
	for combination := range slices.Chunk(cells, len(a.Seeds)) {
		c, err := a.gridCell(dir, combination)
		if err != nil {
			return err
		}
		g.Cells = append(g.Cells, c)
	}
	return report.WriteGrid(filepath.Join(dir, rundir.Report), g)
}

// gridCell is a combination of values on the page; cells are its runs.
func (a *Ablation) gridCell(dir string, cells []grid.Cell) (report.GridCell, error) {
	g := report.GridCell{Default: cells[0].Base}
	for i, x := range a.Axes {
		g.At = append(g.At, slices.Index(x.Values, cells[0].Values[i]))
	}
	for _, c := range cells {
		path := filepath.Join(dir, c.Name)
		r := report.GridRun{Seed: c.Seed, Name: c.Name, Report: rundir.Has(path, rundir.Report),
			Figures: map[string]float64{}}
		if i := slices.IndexFunc(a.Failed, func(f FailedRun) bool { return f.Name == c.Name }); i >= 0 {
			r.Error = a.Failed[i].Error
		} else if i := slices.IndexFunc(a.Dropped, func(d DroppedRun) bool { return d.Name == c.Name }); i >= 0 {
			r.Left = a.Dropped[i].Why
			spent, err := spentBy(path)
			if err != nil {
				return g, err
			}
			r.Figures["epsilon"] = spent
		} else if row := a.row(c); row != nil {
			row.figures(slices.Index(row.Seeds, c.Seed), r.Figures)
		}
		if r.Error == "" && rundir.Exists(path) {
			seconds, failed := trainingSeconds(path)
			distances, unread := curveOf(path, rounds.Distance)
			cost, err := reporting.CostOf(path)
			if err = cmp.Or(failed, unread, err); err != nil {
				return g, err
			}
			if seconds > 0 {
				r.Figures["seconds"] = seconds
			}
			if n := len(distances); n > 0 {
				r.Figures[distanceKey] = distances[n-1]
			}
			if cost.Sent > 0 && r.Left == "" { // of all planned rounds
				r.Figures[sentKey] = float64(cost.Sent)
			}
		}
		g.Runs = append(g.Runs, r)
	}
	return g, nil
}

// row is the row with a cell's result, nil if there is none.
func (a *Ablation) row(c grid.Cell) *Row {
	i := slices.IndexFunc(a.Rows, func(r Row) bool {
		return slices.Equal(r.Values, c.Values) && slices.Contains(r.Seeds, c.Seed)
	})
	if i < 0 {
		return nil
	}
	return &a.Rows[i]
}

// figures adds the figures of the run with the number i of its seeds.
func (r *Row) figures(i int, to map[string]float64) {
	for key, s := range map[string]*Summary{"gap_closed": r.GapClosed, "accuracy": &r.Accuracy,
		"perplexity": r.Perplexity, "macro_f1": r.MacroF1, "fid": r.FID, validationKey: r.Validation, "epsilon": &r.Epsilon} {
		if s != nil {
			to[key] = s.Values[i]
		}
	}
}

// trainingSeconds is the time of a run's stages, of all its processes, without the evaluation.
func trainingSeconds(dir string) (sum float64, err error) {
	stages, _, err := reporting.Shared(dir)
	for _, s := range stages {
		if s.Name != evaluator.Stage && s.Name != run.JudgeStage {
			sum += s.Seconds
		}
	}
	return sum, err
}

// rungs is the page's table of an adaptive order.
func (a *Ablation) rungs() *report.GridRungs {
	h := a.Adaptive
	g := &report.GridRungs{Figure: "Accuracy in % of the small model on the validation clients, ± standard deviation over " +
		"seeds. It was trained on the text that the adapters of those rounds write. Among equal accuracies, the lower loss comes first."}
	for _, rung := range h.Rungs {
		g.Heads = append(g.Heads, "after "+roundsOf(rung.Rounds))
		if rung.Tied {
			g.Figure += fmt.Sprintf(" After %s, settings on both sides of the border had equal figures: their order "+
				"in the grid decided.", roundsOf(rung.Rounds))
		}
	}
	if len(h.Rungs) == 0 {
		return g
	}
	for _, s := range h.Rungs[0].Settings {
		row := report.GridRungRow{Went: true, Outcome: "went on to its end"}
		for i, v := range s.Values {
			row.Name += fmt.Sprintf("%s%s = %s", []string{"", ", "}[min(i, 1)], a.Axes[i].Key, v)
		}
		for _, rung := range h.Rungs {
			i := slices.IndexFunc(rung.Settings, func(o JudgedSetting) bool { return slices.Equal(o.Values, s.Values) })
			text := "–"
			if i >= 0 {
				o := rung.Settings[i]
				text = fmt.Sprintf("%.2f", 100*o.Accuracy.Mean)
				if o.Accuracy.SD != nil {
					text += fmt.Sprintf(" ± %.2f", 100**o.Accuracy.SD)
				}
			}
			row.Cells = append(row.Cells, text)
		}
		for _, f := range a.Failed {
			if row.Went && slices.Equal(f.Values, s.Values) {
				row.Went, row.Outcome = false, "a run failed"
			}
		}
		for _, d := range a.Dropped {
			if row.Went && slices.Equal(d.Values, s.Values) {
				row.Went, row.Outcome = false, d.Why
			}
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// adaptiveNote says what an adaptive order means for the total.
func (a *Ablation) adaptiveNote() string {
	note := "The validation clients decided which settings went on; they are not protected, and test clients had no " +
		"part in it. The releases of dropped runs count: their noise follows the full plan, of which they made the first rounds."
	if a.Adaptive.Fixed {
		return note +
			" All settings spend alike, so the number of releases was fixed before the first run, whichever settings went on."
	}
	for _, c := range a.Adaptive.Planned {
		note += " Settings spend differently, so what is spent depended on which of them went on. Fixed beforehand " +
			"was this bound, of all runs to their end: " + c.Words("runs") + "."
	}
	return note
}
