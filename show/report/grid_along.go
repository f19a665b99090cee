package report

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
)

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
