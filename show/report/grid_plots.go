package report

import (
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
)

// draw draws the first figure of all combinations, for paper and for readers without JavaScript.
func (p *gridPage) draw() (err error) {
	g := p.Grid
	if len(g.Figures) == 0 {
		return nil
	}
	f := g.Figures[0]
	// A line between values that are not numbers would mean nothing.
	means := line{name: "mean over seeds", points: len(g.Axes) != 1 || g.Axes[0].Numbers == nil}
	seeds := line{name: "one seed", index: 1, points: true}
	var keys []string
	for _, a := range g.Axes {
		keys = append(keys, a.Key)
	}
	opt := plotOptions{width: 460, height: 240, xLabel: strings.Join(keys, ", ")}
	for i, c := range g.Cells {
		values := c.values(f.Key)
		mean, sd := spread(values)
		text := strings.Join(g.valuesOf(c), ", ")
		opt.ticks = append(opt.ticks, plot.Tick{Value: float64(i), Label: clean(shorten(text, 16))})
		means.x, means.y = append(means.x, float64(i)), append(means.y, f.Scale*mean)
		if len(values) > 1 {
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
	p.Figure, p.HasFig, err = drawPlot(f.head(), slices.Clip(lines), opt)
	return err
}

// signed writes a difference with its sign.
func signed(v float64, decimals int) string {
	if v >= 0 {
		return "+" + fixed(v, decimals)
	}
	return fixed(v, decimals)
}

// spread returns mean and standard deviation (n−1) of the finite figures; NaN of none.
func spread(figures []float64) (mean, sd float64) {
	n := 0.0
	for _, v := range figures {
		if finite(v) {
			mean += v
			n++
		}
	}
	mean /= n // NaN of none
	for _, v := range figures {
		if finite(v) {
			sd += (v - mean) * (v - mean)
		}
	}
	if n > 1 {
		sd = math.Sqrt(sd / (n - 1))
	}
	return mean, sd
}

func shorten(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}

// DistanceKey is the figure that is drawn along keys beside the first one: how far the samples are from the clients.
const DistanceKey = "distance"

// along draws figures of cells along a key that they change, where it changes the figure.
func (p *gridPage) along() error {
	g := p.Grid
	for _, a := range g.Along {
		for i, f := range g.Figures {
			if i > 0 && f.Key != DistanceKey {
				continue
			}
			opt := plotOptions{width: 360, height: 220, xLabel: a.Key}
			place := func(x float64) float64 { return x }
			if least, most := slices.Min(a.Values), slices.Max(a.Values); least > 0 && most/least >= 4 {
				place = math.Log2
			}
			means := line{name: "mean over seeds"}
			differ := false
			for k, cell := range a.Cells {
				values := g.Cells[cell].values(f.Key)
				mean, sd := spread(values)
				if !finite(mean) {
					continue
				}
				x, y := place(a.Values[k]), f.Scale*mean
				opt.ticks = append(opt.ticks, plot.Tick{Value: x, Label: significant(a.Values[k], 4)})
				if len(values) > 1 {
					opt.whiskers = append(opt.whiskers, whisker{x, y, y - f.Scale*sd, y + f.Scale*sd})
				}
				differ = differ || len(means.y) > 0 && y != means.y[0]
				means.x, means.y = append(means.x, x), append(means.y, y)
			}
			if !differ {
				continue
			}
			drawn, ok, err := drawPlot(f.head(), []line{means}, opt)
			if err != nil {
				return err
			}
			if ok {
				p.Along = append(p.Along, drawn)
			}
		}
	}
	return nil
}

// price draws the first figure of all combinations against another one, bytes, on a logarithmic scale: what more of
// them buys.
func (p *gridPage) price() error {
	g := p.Grid
	if g.Price == nil || len(g.Figures) == 0 {
		return nil
	}
	f := g.Figures[0]
	series := map[int]*line{}
	var lines []line
	opt := plotOptions{width: 760, height: 320, xLabel: g.Price.Name}
	least, most := math.Inf(1), math.Inf(-1)
	for _, c := range g.Cells {
		bytes, _ := spread(c.values(g.Price.Key))
		mean, sd := spread(c.values(f.Key))
		if !finite(mean) || !finite(bytes) || bytes <= 0 {
			continue
		}
		x, last := math.Log2(bytes), c.At[len(c.At)-1]
		least, most = min(least, x), max(most, x)
		if series[last] == nil {
			a := g.Axes[len(g.Axes)-1]
			series[last] = &line{name: a.Key + " = " + a.Values[last], index: last, points: true}
		}
		s := series[last]
		s.x, s.y = append(s.x, x), append(s.y, f.Scale*mean)
		opt.names = append(opt.names, named{x, f.Scale * mean,
			shorten(strings.Join(g.valuesOf(c)[:max(1, len(c.At)-1)], ", "), 24)})
		if len(c.values(f.Key)) > 1 {
			opt.whiskers = append(opt.whiskers,
				whisker{x, f.Scale * mean, f.Scale * (mean - sd), f.Scale * (mean + sd)})
		}
	}
	for i := range g.Axes[len(g.Axes)-1].Values {
		if series[i] != nil {
			lines = append(lines, *series[i])
		}
	}
	// Ticks are a factor of 32 apart; names need room on the right.
	for x := 5 * math.Floor(least/5); x <= most+5; x += 5 {
		opt.ticks = append(opt.ticks, plot.Tick{Value: x, Label: humanize.IBytes(uint64(math.Exp2(x)))})
	}
	var err error
	p.PriceFigure, p.HasPrice, err = drawPlot(f.head()+" against what "+strings.ToLower(g.Price.Name), lines, opt)
	return err
}
