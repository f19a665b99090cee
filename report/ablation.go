package report

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
)

type ablationView struct {
	Figure figure
	HasFig bool
	Key    string
	Note   string
	Metric string
	Rows   []ablationRow
	Paired bool // rows have a difference to the default
}

type ablationRow struct {
	Value, Mean, SD, Range string
	Against                string // the default row, paired by seed
	Seeds                  int
	Default, Best          bool
}

func newAblation(a Ablation) (ablationView, error) {
	view := ablationView{Key: a.Key, Note: a.Note, Metric: a.Metric}
	asShare := a.Metric == ""
	if asShare {
		view.Metric = "accuracy on private test clients"
	}
	show := func(v float64) string {
		if asShare {
			return percent(v, 2)
		}
		return significant(v, 4)
	}
	// A line between values that are not numbers would mean nothing.
	means := line{name: "mean over seeds", points: slices.ContainsFunc(a.Points, func(p AblationPoint) bool {
		_, err := strconv.ParseFloat(p.Value, 64)
		return err != nil
	})}
	seeds := line{name: "one seed", index: 1, points: true}
	opt := plotOptions{width: 460, height: 240, xLabel: a.Key, percent: asShare}
	best := math.Inf(-1)
	for i, point := range a.Points {
		row := ablationRow{Value: point.Value, Seeds: len(point.Figures), Default: point.Default, Mean: missing,
			SD: missing, Range: missing}
		mean, sd, low, high := spread(point.Figures)
		opt.ticks = append(opt.ticks, plot.Tick{Value: float64(i), Label: clean(shorten(point.Value, 16))})
		means.x, means.y = append(means.x, float64(i)), append(means.y, mean)
		if finite(mean) {
			row.Mean = show(mean)
			best = max(best, mean)
			if len(point.Figures) > 1 && finite(sd) {
				row.SD, row.Range = show(sd), show(low)+" – "+show(high)
				opt.whiskers = append(opt.whiskers, whisker{float64(i), mean, mean - sd, mean + sd})
			}
		}
		for _, v := range point.Figures {
			seeds.x, seeds.y = append(seeds.x, float64(i)), append(seeds.y, v)
		}
		view.Rows = append(view.Rows, row)
	}
	if i := slices.IndexFunc(a.Points, func(p AblationPoint) bool { return p.Default }); i >= 0 {
		view.Paired = view.against(a.Points, i, asShare)
	}
	for i := range view.Rows {
		view.Rows[i].Best = finite(means.y[i]) && means.y[i] == best
	}
	lines := []line{means}
	if len(seeds.y) > len(means.y) {
		lines = append(lines, seeds)
	}
	// A margin on both sides keeps the first and the last whisker off the edge.
	if n := len(opt.ticks); n > 0 {
		opt.ticks = append(opt.ticks, plot.Tick{Value: -0.4}, plot.Tick{Value: float64(n) - 0.6})
	}
	fig, ok, err := drawPlot(a.Key+": "+view.Metric, lines, opt)
	if err != nil {
		return view, err
	}
	view.Figure, view.HasFig = fig, ok
	return view, nil
}

// against fills in each row's difference to the default row, seed by seed: its mean and, of two seeds or more, its
// standard deviation. It reports whether there is one.
func (v *ablationView) against(points []AblationPoint, base int, asShare bool) (any bool) {
	scale := 1.0
	if asShare {
		scale = 100
	}
	for i, p := range points {
		v.Rows[i].Against = missing
		if i == base || len(p.Figures) != len(points[base].Figures) {
			continue
		}
		difference := make([]float64, len(p.Figures))
		for k := range difference {
			difference[k] = scale * (p.Figures[k] - points[base].Figures[k])
		}
		mean, sd, _, _ := spread(difference)
		if !finite(mean) {
			continue
		}
		any = true
		v.Rows[i].Against = signed(mean, 2)
		if len(difference) > 1 {
			v.Rows[i].Against += " ± " + fixed(sd, 2)
		}
	}
	return any
}

// signed writes a difference with its sign.
func signed(v float64, decimals int) string {
	if v >= 0 {
		return "+" + fixed(v, decimals)
	}
	return fixed(v, decimals)
}

// spread returns mean, standard deviation (n−1), lowest and highest of the finite figures; NaN of none.
func spread(figures []float64) (mean, sd, low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	n := 0.0
	for _, v := range figures {
		if finite(v) {
			mean += v
			n++
			low, high = min(low, v), max(high, v)
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
	return mean, sd, low, high
}

func shorten(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}
