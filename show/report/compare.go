package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/show/series"
)

// Compare writes one page at path that shows several runs side by side: guarantees, results, overlaid curves, and the
// settings in which they differ. Runs without a title are numbered.
func Compare(path string, runs []Report) error {
	return writePage(path, "compare", newComparison(runs))
}

type comparison struct {
	Style           template.CSS
	Script          script
	Title, Headline string
	Picture         picture
	Runs            []Report
	Warnings        []string
	Privacy         matrix
	Results         []figureTable
	Curves          []figure
	Settings        matrix
}

// figureTable is the table of a figure of results.
type figureTable struct {
	Title, Note string
	Matrix      matrix
}

// matrix is a table with a column for every run.
type matrix struct {
	Caption, Corner string
	Head            []string
	Rows            []matrixRow
}

type matrixRow struct {
	Name  string
	Cells []cell
}

type cell struct {
	Text, Note string
	Best       bool
	value      float64 // of a figure
}

func newComparison(runs []Report) *comparison {
	runs = slices.Clone(runs)
	p := &comparison{Style: template.CSS(StyleSheet), Script: pageScript, Title: quote.Count(len(runs), "run", ""),
		Runs: runs}
	for i, title := range titlesOf(runs) {
		runs[i].Title = title
		runs[i].readable()
	}
	p.warn(runs)

	// Facts, results and settings are matched by name; the order is the order of first appearance.
	p.Privacy = collect("The guarantee of each run", "Fact", runs,
		func(r Report, add func(name string, c cell)) {
			for _, f := range r.Privacy.facts() {
				add(f.Name, cell{Text: f.Value})
			}
		})
	same := sameTest(runs)
	for i, c := range resultColumns {
		m := collect(c.caption, "Trained on", runs, func(r Report, add func(string, cell)) {
			for _, row := range r.Results {
				if v, _ := c.of(row); v != nil {
					add(rowName(r, row), c.cell(row))
				}
			}
		})
		if i == 0 && same {
			markBest(m)
		}
		if len(m.Rows) > 0 && c.caption != "" {
			p.Results = append(p.Results, figureTable{c.title, c.note, m})
		}
	}
	if same {
		p.products(runs)
	} else {
		p.Headline = "The runs' rows of ε = 0 differ or are missing: their small models or test clients may not be " +
			"the same, so the accuracies of different runs are not compared."
	}

	p.differences(runs)
	p.curves(runs)
	return p
}

// curves draws one line for each run in each plot that all share: the first of the plot's figures.
func (p *comparison) curves(runs []Report) {
	for _, plot := range sharedPlots(runs) {
		var lines []line
		for i, r := range runs {
			lines = append(lines, takeLine(r.Title, r.Rounds, plot.Lines[0].Key, i))
		}
		title := plot.Title
		if len(plot.Lines) > 1 {
			title += ", " + plot.Lines[0].Name
		}
		options := plotOptions{width: curveWidth, height: curveHeight, xLabel: "round", percent: plot.Percent}
		if fig := drawPlot(title, plot.Note, lines, options); fig.Drawing != "" {
			p.Curves = append(p.Curves, fig)
		}
	}
}

// differences lists the settings in which the runs differ.
func (p *comparison) differences(runs []Report) {
	all := collect("Settings in which the runs differ", "Setting", runs,
		func(r Report, add func(string, cell)) {
			for _, s := range r.Settings {
				add(s.Key, cell{Text: s.Value})
			}
		})
	all.Rows = slices.DeleteFunc(all.Rows, func(row matrixRow) bool {
		return !slices.ContainsFunc(row.Cells, func(c cell) bool { return c.Text != row.Cells[0].Text })
	})
	p.Settings = all
}

// collect builds a matrix of what visit adds for every run.
func collect(caption, corner string, runs []Report, visit func(r Report, add func(name string, c cell))) matrix {
	m := matrix{Caption: caption, Corner: corner, Head: numeric.Map(runs, func(r Report) string { return r.Title })}
	for column, r := range runs {
		visit(r, func(name string, c cell) {
			i := slices.IndexFunc(m.Rows, func(row matrixRow) bool { return row.Name == name })
			if i < 0 {
				empty := slices.Repeat([]cell{{Text: missing}}, len(runs))
				m.Rows = append(m.Rows, matrixRow{name, empty})
				i = len(m.Rows) - 1
			}
			m.Rows[i].Cells[column] = c
		})
	}
	return m
}

// rowName names a result in a table with a column for each run. What the run publishes has one name for all, because its
// own name has its method, ε and fraction of public text, which differ from run to run.
func rowName(r Report, row Result) string {
	if row.Key == r.Main {
		return "what the run publishes"
	}
	return row.Name
}

// sameTest reports whether all runs that have results tested the same small model on the same clients: their untrained
// small models have the same accuracy and perplexity, to the last digit.
func sameTest(runs []Report) bool {
	var first *Result
	for _, r := range runs {
		if len(r.Results) == 0 {
			continue
		}
		i := slices.IndexFunc(r.Results, func(x Result) bool { return x.Key == keyPublic })
		if i < 0 {
			return false
		}
		x := &r.Results[i]
		if first == nil {
			first = x
		}
		if !equal(x.Accuracy, first.Accuracy) || !equal(x.Perplexity, first.Perplexity) ||
			!equal(x.MacroF1, first.MacroF1) {
			return false
		}
	}
	return true
}

// equal reports whether two figures are equal, or both unknown.
func equal(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }

// markBest marks the highest figure of each row of the table, unless all runs have the same.
func markBest(m matrix) {
	for _, row := range m.Rows {
		var known []float64
		for _, c := range row.Cells {
			if c.Text != missing {
				known = append(known, c.value)
			}
		}
		if len(known) < 2 || slices.Min(known) == slices.Max(known) {
			continue
		}
		for i, c := range row.Cells {
			row.Cells[i].Best = c.Text != missing && c.value == slices.Max(known)
		}
	}
}

// sharedPlots are the plots of all runs, each once, in the order of their first appearance.
func sharedPlots(runs []Report) []series.Plot {
	var out []series.Plot
	for _, r := range runs {
		for _, plot := range r.Series.Plots {
			if len(plot.Lines) > 0 &&
				!slices.ContainsFunc(out, func(p series.Plot) bool { return p.Lines[0].Key == plot.Lines[0].Key }) {
				out = append(out, plot)
			}
		}
	}
	return out
}

// products compares the runs' products by the accuracy of small models, if two or more are measured.
func (p *comparison) products(runs []Report) {
	var list []Result
	for i, r := range runs {
		m := measureOf(r.Results)
		if x, ok := m.find(r.Results, r.Main); ok && !m.less && labelled(r.Results) == labelled(runs[0].Results) {
			x.Name, x.Key = r.Title, fmt.Sprint("run ", i)
			list = append(list, x)
		}
	}
	if len(list) < 2 {
		return
	}
	slices.SortStableFunc(list, func(a, b Result) int { return cmp.Compare(*b.Accuracy, *a.Accuracy) })
	best, last := list[0], list[len(list)-1]
	p.Picture = measureOf(list).picture("Accuracy of each run's small model", list, best.Key, nil)
	decimals := measureOf(list).decimals(list)
	if *best.Accuracy == *last.Accuracy {
		p.Headline = fmt.Sprintf("All %d runs give the same accuracy, %s.", len(list),
			percent(*best.Accuracy, decimals))
		return
	}
	p.Headline = fmt.Sprintf("Of %d runs, “%s” gives the highest accuracy, %s. The lowest, of “%s”, is %s.",
		len(list), best.Name, percent(*best.Accuracy, decimals), last.Name, percent(*last.Accuracy, decimals))
	if a, b := best.AccuracyCI, last.AccuracyCI; a != nil && b != nil && a[0] <= b[1] {
		p.Headline += " Their 95 % intervals overlap."
	}
}

// titlesOf are the runs' titles. Those that are the same are distinguished by the runs' folders.
func titlesOf(runs []Report) (titles []string) {
	counts := map[string]int{}
	for _, r := range runs {
		counts[r.Title]++
	}
	for i, r := range runs {
		title := cmp.Or(r.Title, fmt.Sprintf("Run %d", i+1))
		if r.Title != "" && counts[r.Title] > 1 {
			title += " (" + cmp.Or(r.Folder, fmt.Sprintf("run %d", i+1)) + ")"
		}
		titles = append(titles, title)
	}
	return titles
}

// warn adds the runs' warnings, each once, with the runs that it is about.
func (p *comparison) warn(runs []Report) {
	about := map[string][]string{}
	var order []string
	for _, r := range runs {
		for _, w := range r.Privacy.Warnings {
			if about[w] == nil {
				order = append(order, w)
			}
			about[w] = append(about[w], r.Title)
		}
	}
	for _, w := range order {
		whose := strings.Join(about[w], ", ")
		if len(about[w]) == len(runs) && len(runs) > 1 {
			whose = "All runs"
		}
		p.Warnings = append(p.Warnings, whose+": "+w)
	}
}
