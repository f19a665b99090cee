package report

import (
	"math"
	"strings"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
)

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
