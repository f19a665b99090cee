package report

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"popri/show/series"
)

// SaveScript puts buttons beside figures and tables that save them as SVG and PNG, CSV and LaTeX. It defines popriSave.
//
//go:embed save.js
var SaveScript string

// PlotRounds draws a plot of a method's rounds as HTML, "" if none of its figures is known. budget is the run's ε, 0 if
// it is not known.
func PlotRounds(p series.Plot, rounds []series.Round, budget float64) (string, error) {
	list := make([]Round, len(rounds))
	for i, r := range rounds {
		list[i].Figures = r
	}
	fig, ok, err := drawRounds(p, list, budget)
	if err != nil || !ok {
		return "", err
	}
	return fig.html()
}

// PlotCurve draws one line without marks at its points as HTML, "" if it has no finite point.
func PlotCurve(title, note, xLabel string, x, y []float64) (string, error) {
	fig, ok, err := drawPlot(title, []line{{x: x, y: y, bare: true}},
		plotOptions{width: curveWidth, height: curveHeight, xLabel: xLabel})
	if err != nil || !ok {
		return "", err
	}
	fig.Note = note
	return fig.html()
}

func (f figure) html() (string, error) {
	var b strings.Builder
	err := pages.ExecuteTemplate(&b, "figure", f)
	return b.String(), err
}

// RoundTable is the table of the rounds' figures: those that some round has.
func RoundTable(set series.Set, rounds []series.Round) (head []string, rows [][]string) {
	head = []string{"Round"}
	var columns []series.Series
	for _, s := range set.Columns {
		if slices.ContainsFunc(rounds, func(r series.Round) bool { return r.Get(s.Key) != nil }) {
			columns = append(columns, s)
			head = append(head, s.Name)
		}
	}
	for _, round := range rounds {
		row := []string{count(round.Number)}
		for _, s := range columns {
			row = append(row, Figure(s, value(round.Get(s.Key))))
		}
		rows = append(rows, row)
	}
	return head, rows
}

// drawRounds draws a plot of the rounds; ok is false if none of its figures is known.
func drawRounds(plot series.Plot, rounds []Round, budget float64) (fig figure, ok bool, err error) {
	var lines []line
	for i, l := range plot.Lines {
		lines = append(lines, takeLine(l.Name, rounds, l.Key, i))
	}
	if !slices.ContainsFunc(lines, func(l line) bool { return slices.ContainsFunc(l.y, finite) }) {
		return fig, false, nil
	}
	if plot.Budget && budget > 0 && finite(budget) {
		first, last := float64(rounds[0].Figures.Number), float64(rounds[len(rounds)-1].Figures.Number)
		lines = append(lines, line{name: "budget", index: 1, dashed: true, x: []float64{first, last},
			y: []float64{budget, budget}})
	}
	options := plotOptions{width: curveWidth, height: curveHeight, xLabel: "round", percent: plot.Percent,
		fromZero: plot.Budget, bound: plot.Budget}
	if fig, ok, err = drawPlot(plot.Title, lines, options); err != nil {
		return fig, false, fmt.Errorf("curve %q: %w", plot.Title, err)
	}
	fig.Note = plot.Note
	return fig, ok, nil
}
