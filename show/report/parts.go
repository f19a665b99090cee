package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"popri/internal/numeric"
	"popri/show/series"
)

// SaveScript puts buttons below figures and tables that save them as SVG and PNG, CSV and LaTeX. It defines popriSave.
//
//go:embed save.js
var SaveScript string

// PlotRounds draws a plot of a method's rounds as HTML, "" if none of its figures is known. budget is the run's ε, 0 if
// it is not known.
func PlotRounds(p series.Plot, rounds []series.Round, budget float64) string {
	list := numeric.Map(rounds, func(r series.Round) Round { return Round{Figures: r} })
	return drawRounds(p, list, budget).html()
}

// PlotCurve draws one line without marks at its points as HTML, "" if it has no finite point.
func PlotCurve(title, note, xLabel string, x, y []float64) string {
	return drawPlot(title, note, []line{{x: x, y: y, bare: true}},
		plotOptions{width: curveWidth, height: curveHeight, xLabel: xLabel}).html()
}

func (f figure) html() string {
	var b strings.Builder
	if f.Drawing != "" {
		template.Must(pages, pages.ExecuteTemplate(&b, "figure", f))
	}
	return b.String()
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

// drawRounds draws a plot of the rounds, and nothing if none of its figures is known.
func drawRounds(plot series.Plot, rounds []Round, budget float64) figure {
	var lines []line
	for i, l := range plot.Lines {
		lines = append(lines, takeLine(l.Name, rounds, l.Key, i))
	}
	if !slices.ContainsFunc(lines, func(l line) bool { return slices.ContainsFunc(l.y, finite) }) {
		return figure{}
	}
	if plot.Budget && budget > 0 && finite(budget) {
		first, last := float64(rounds[0].Figures.Number), float64(rounds[len(rounds)-1].Figures.Number)
		lines = append(lines, line{name: "budget", index: 1, dashed: true, x: []float64{first, last},
			y: []float64{budget, budget}})
	}
	return drawPlot(plot.Title, plot.Note, lines, plotOptions{width: curveWidth, height: curveHeight, xLabel: "round",
		percent: plot.Percent, fromZero: plot.Budget, bound: plot.Budget})
}

const (
	curveWidth  = 300
	curveHeight = 170
)

// Figure writes a figure in the format of its series.
func Figure(s series.Series, v float64) string {
	switch s.Format {
	case series.Percent:
		return percent(v, s.Decimals)
	case series.Count:
		if !finite(v) {
			return missing
		}
		return count(int(v))
	case series.Bound:
		return roundedUp(v, 4)
	}
	return fixed(v, s.Decimals)
}

// takeLine is a figure of the rounds as a line.
func takeLine(name string, rounds []Round, key string, index int) line {
	l := line{name: name, index: index}
	for _, r := range rounds {
		l.x = append(l.x, float64(r.Figures.Number))
		l.y = append(l.y, value(r.Figures.Get(key)))
	}
	return l
}

func (p *page) rounds(r Report) {
	if len(r.Rounds) == 0 {
		return
	}
	for _, plot := range r.Series.Plots {
		if fig := drawRounds(plot, r.Rounds, r.Privacy.Epsilon); fig.Drawing != "" {
			p.Curves = append(p.Curves, fig)
		}
	}
	head, rows := RoundTable(r.Series, numeric.Map(r.Rounds, func(r Round) series.Round { return r.Figures }))
	timed := slices.ContainsFunc(r.Rounds, func(r Round) bool { return r.Seconds > 0 })
	if p.RoundHead = head; timed {
		p.RoundHead = append(head, "Time")
	}
	for i, cells := range rows {
		if timed {
			cells = append(cells, Duration(r.Rounds[i].Seconds))
		}
		p.Rounds = append(p.Rounds, roundRow{cells, r.Rounds[i].Selected})
		p.HasSelected = p.HasSelected || r.Rounds[i].Selected
	}
}

// mostViews is the number of rounds whose samples are drawn.
const mostViews = 6

// Views chooses the rounds whose samples are drawn, at even distances from the first to the last. The one whose
// adapters were selected (0 for none) replaces its nearest neighbour.
func Views(rounds, selected int) (chosen []int) {
	picked := min(mostViews, rounds)
	for i := range picked {
		chosen = append(chosen, 1+i*(rounds-1)/max(1, picked-1))
	}
	if selected < 1 || slices.Contains(chosen, selected) {
		return chosen
	}
	distance := func(a, b int) int { return max(a-selected, selected-a) - max(b-selected, selected-b) }
	nearest := slices.MinFunc(chosen[1:picked-1], distance)
	chosen[slices.Index(chosen, nearest)] = selected
	return chosen
}

// views draws the samples of some rounds, all to the same scale.
func (p *page) views(list []View) {
	var left, right, low, high float64
	for _, v := range list {
		for _, at := range append([][2]float64{{2 * v.Reference[0], 2 * v.Reference[1]},
			{-2 * v.Reference[0], -2 * v.Reference[1]}}, v.Points...) {
			left, right = min(left, at[0]), max(right, at[0])
			low, high = min(low, at[1]), max(high, at[1])
		}
	}
	for _, v := range list {
		samples := line{name: "samples", points: true}
		for _, at := range v.Points {
			samples.x, samples.y = append(samples.x, at[0]), append(samples.y, at[1])
		}
		lines := []line{samples}
		const steps = 60
		for deviations := 1.0; deviations <= 2; deviations++ {
			ellipse := line{name: fmt.Sprintf("validation texts, %g SD", deviations), index: 1, bare: true}
			for k := range steps + 1 {
				angle := 2 * math.Pi * float64(k) / steps
				ellipse.x = append(ellipse.x, deviations*v.Reference[0]*math.Cos(angle))
				ellipse.y = append(ellipse.y, deviations*v.Reference[1]*math.Sin(angle))
			}
			lines = append(lines, ellipse)
		}
		ticks, _, _ := niceTicks(left, right, false)
		p.Views = append(p.Views, drawPlot(fmt.Sprintf("Samples of round %d", v.Round), "", lines,
			plotOptions{width: curveWidth, height: curveWidth * 0.75, ticks: ticks,
				bounds: &[4]float64{left, right, low, high}}))
	}
}
