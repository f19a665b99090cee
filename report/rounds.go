package report

import (
	"fmt"
	"slices"

	"popri/series"
)

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

// takeLine removes a figure of the rounds from a list and returns it.
func takeLine(name string, rounds []Round, key string, index int) line {
	l := line{name: name, index: index}
	for _, r := range rounds {
		l.x = append(l.x, float64(r.Figures.Number))
		l.y = append(l.y, value(r.Figures.Get(key)))
	}
	return l
}

func (p *page) rounds(r Report) error {
	if len(r.Rounds) == 0 {
		return nil
	}
	for _, plot := range r.Series.Plots {
		if err := p.curve(plot, r.Rounds, r.Privacy.Epsilon); err != nil {
			return err
		}
	}
	p.RoundHead = []string{"Round"}
	var columns []series.Series
	for _, s := range r.Series.Columns {
		if slices.ContainsFunc(r.Rounds, func(r Round) bool { return r.Figures.Get(s.Key) != nil }) {
			columns = append(columns, s)
			p.RoundHead = append(p.RoundHead, s.Name)
		}
	}
	p.RoundHead = append(p.RoundHead, "Time")
	for _, round := range r.Rounds {
		row := roundRow{Cells: []string{count(round.Figures.Number)}, Selected: round.Selected}
		for _, s := range columns {
			row.Cells = append(row.Cells, Figure(s, value(round.Figures.Get(s.Key))))
		}
		row.Cells = append(row.Cells, duration(round.Seconds))
		p.Rounds = append(p.Rounds, row)
	}
	return nil
}

// curve adds a plot of the rounds, unless none of its figures is known.
func (p *page) curve(plot series.Plot, rounds []Round, budget float64) error {
	var lines []line
	for i, l := range plot.Lines {
		lines = append(lines, takeLine(l.Name, rounds, l.Key, i))
	}
	if !slices.ContainsFunc(lines, func(l line) bool { return slices.ContainsFunc(l.y, finite) }) {
		return nil
	}
	if plot.Budget && budget > 0 && finite(budget) {
		first, last := float64(rounds[0].Figures.Number), float64(rounds[len(rounds)-1].Figures.Number)
		lines = append(lines, line{name: "budget", index: 1, dashed: true, x: []float64{first, last},
			y: []float64{budget, budget}})
	}
	options := plotOptions{width: curveWidth, height: curveHeight, xLabel: "round", percent: plot.Percent,
		fromZero: plot.Budget}
	fig, ok, err := drawPlot(plot.Title, lines, options)
	if err != nil {
		return fmt.Errorf("curve %q: %w", plot.Title, err)
	}
	if ok {
		fig.Note = plot.Note
		p.Curves = append(p.Curves, fig)
	}
	return nil
}
