package report

import (
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"

	"popri/internal/numeric"
)

// draw draws the first figure of all combinations, for paper and for readers without JavaScript.
func (p *gridPage) draw() {
	g := p.Grid
	if len(g.Figures) == 0 {
		return
	}
	f := g.Figures[0]
	// A line between values that are not numbers would mean nothing.
	means := line{name: "mean over seeds", points: len(g.Axes) != 1 || g.Axes[0].Numbers == nil}
	seeds := line{name: "one seed", index: 1, points: true}
	keys := numeric.Map(g.Axes, func(a GridAxis) string { return a.Key })
	opt := plotOptions{width: 460, height: 240, xLabel: strings.Join(keys, ", ")}
	for i, c := range g.Cells {
		values := c.values(f.Key)
		mean, sd := spread(values)
		text := strings.Join(g.valuesOf(c), ", ")
		opt.ticks = append(opt.ticks, plot.Tick{Value: float64(i), Label: clean(shorten(text, 16))})
		means.x, means.y = append(means.x, float64(i)), append(means.y, f.Scale*mean)
		if len(values) > 1 && finite(f.Scale*sd) {
			opt.whiskers = append(opt.whiskers,
				whisker{float64(i), f.Scale * mean, f.Scale * (mean - sd), f.Scale * (mean + sd)})
		}
		for _, v := range values {
			seeds.x, seeds.y = append(seeds.x, float64(i)), append(seeds.y, f.Scale*v)
		}
	}
	lines := []line{means}
	if len(seeds.y) > len(means.y) {
		lines = append(lines, seeds)
	}
	// A margin on both sides keeps the first and the last whisker off the edge.
	if n := len(opt.ticks); n > 0 {
		opt.ticks = append(opt.ticks, plot.Tick{Value: -0.4}, plot.Tick{Value: float64(n) - 0.6})
	}
	p.Figure = drawPlot(f.head(), "", lines, opt)
}

// spread returns mean and standard deviation (n−1) of the finite figures; NaN of none.
func spread(figures []float64) (mean, sd float64) {
	known := slices.DeleteFunc(slices.Clone(figures), func(v float64) bool { return !finite(v) })
	if mean, sd = stat.MeanStdDev(known, nil); len(known) < 2 {
		sd = 0
	}
	return mean, sd
}

func shorten(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}
