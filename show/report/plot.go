package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Plots are drawn in placeholder colours: each is replaced by a variable of the page's style sheet, so that one drawing
// suits light and dark screens. The values only have to differ from each other and from black, which the SVG writer
// leaves out.
const (
	mutedColor = iota
	gridColor
	firstSeries
)

// seriesColors is the number of colours for series in the style sheet.
const seriesColors = 6

func placeholder(i int) color.Color { return color.RGBA{R: 10, G: 11, B: uint8(20 + i), A: 255} }

func seriesColor(i int) color.Color { return placeholder(firstSeries + i%seriesColors) }

// seriesVariable is the style sheet's name of a series' colour.
func seriesVariable(i int) string { return fmt.Sprintf("--s%d", i%seriesColors+1) }

var toVariables = func() *strings.Replacer {
	names := []string{"var(--muted)", "var(--grid)"}
	for i := range seriesColors {
		names = append(names, "var("+seriesVariable(i)+")")
	}
	var pairs []string
	for i, name := range names {
		r, g, b, _ := placeholder(i).RGBA()
		pairs = append(pairs, fmt.Sprintf("#%02X%02X%02X", r>>8, g>>8, b>>8), name)
	}
	return strings.NewReplacer(pairs...)
}()

// line is one line of a plot. NaN and infinite values are gaps.
type line struct {
	name   string
	x, y   []float64
	index  int  // of the colour
	dashed bool // a reference instead of a measurement
	points bool // points without a line
	bare   bool // a line without points
}

// whisker is a value with its spread.
type whisker struct {
	x, y, low, high float64
}

// figure is a plot with its words.
type figure struct {
	Title   string
	Note    string
	Legend  []legendEntry
	Drawing template.HTML // "" if no line has a finite value
	Last    string        // what the last point of the first line shows; "" if no point shows its value
}

type legendEntry struct {
	Name     string
	Variable template.CSS
	Dashed   bool
	Points   bool
}

// plotOptions are the differences between the page's plots.
type plotOptions struct {
	width, height vg.Length
	ticks         []plot.Tick // format of x; nil shows whole numbers
	xLabel        string
	whiskers      []whisker
	fromZero      bool
	percent       bool
	bound         bool        // values are upper bounds, which are rounded up
	bounds        *[4]float64 // left, right, low and high of the axes; nil: what the lines need
}

// drawPlot draws the series that have a finite value.
func drawPlot(title, note string, lines []line, opt plotOptions) figure {
	fig := figure{Title: title, Note: note}
	p := newPlot(opt)
	e := extent{low: math.Inf(1), high: math.Inf(-1), left: math.Inf(1), right: math.Inf(-1)}
	for _, w := range opt.whiskers {
		e.see(w.x, w.low)
		e.see(w.x, w.high)
		p.Add(path(plotter.XYs{{X: w.x, Y: w.low}, {X: w.x, Y: w.high}}, 0, 1.4))
	}
	for _, s := range lines {
		stretches := s.stretches(&e)
		if len(stretches) == 0 {
			continue
		}
		fig.Legend = append(fig.Legend, legendEntry{s.name, template.CSS("var(" + seriesVariable(s.index) + ")"),
			s.dashed, s.points})
		s.draw(p, stretches)
	}
	if fig.Legend == nil {
		return fig
	}
	e.setAxes(p, opt)

	canvas := vgsvg.New(opt.width, opt.height)
	area := draw.Crop(draw.New(canvas), 1, -8, 1, -4)
	p.Draw(area)
	inside := p.DataCanvas(area)
	toX, toY := p.Transforms(&inside)
	points, last := valuePoints(lines, opt, func(x, y float64) (float64, float64) {
		return toX(x).Points(), (opt.height - toY(y)).Points()
	})
	var out bytes.Buffer
	_, _ = canvas.WriteTo(&out) // never fails
	fig.Last = last
	fig.Drawing = inlineSVG(out.String(), title, points, opt.width, opt.height)
	return fig
}

// newPlot is an empty plot in the report's style.
func newPlot(opt plotOptions) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.Transparent
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		for _, style := range []*draw.TextStyle{&axis.Label.TextStyle, &axis.Tick.Label} {
			style.Font = font.From(plot.DefaultFont, 12)
			style.Font.Variant = "Sans"
			style.Color = placeholder(mutedColor)
		}
		axis.Tick.Length = 0
		axis.Padding = 4
		axis.LineStyle.Width = 0 // the lowest grid line is the axis
	}
	p.X.Label.Text = clean(opt.xLabel)
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color, grid.Horizontal.Width = placeholder(gridColor), 0.8
	p.Add(grid)
	return p
}

// extent is the area that a plot's values take.
type extent struct{ low, high, left, right float64 }

func (e *extent) see(x, y float64) {
	e.low, e.high = min(e.low, y), max(e.high, y)
	e.left, e.right = min(e.left, x), max(e.right, x)
}

// setAxes sets the range and the ticks of both axes.
func (e *extent) setAxes(p *plot.Plot, opt plotOptions) {
	if opt.fromZero {
		e.low = min(e.low, 0)
	}
	if b := opt.bounds; b != nil {
		e.left, e.right, e.low, e.high = b[0], b[1], b[2], b[3]
	}
	var ticks []plot.Tick
	ticks, p.Y.Min, p.Y.Max = niceTicks(e.low, e.high, opt.percent)
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	if opt.ticks == nil {
		if opt.ticks = wholeTicks(e.left, e.right); len(opt.ticks) < 2 && e.left < e.right {
			opt.ticks, _, _ = niceTicks(e.left, e.right, false)
		}
	}
	p.X.Tick.Marker = plot.ConstantTicks(opt.ticks)
	for _, t := range opt.ticks {
		e.left, e.right = min(e.left, t.Value), max(e.right, t.Value)
	}
	if e.left == e.right {
		e.left, e.right = e.left-0.5, e.right+0.5
	}
	p.X.Min, p.X.Max = e.left, e.right
}

// path is a line through points, in the colour of a series.
func path(points plotter.XYs, index int, width vg.Length, dashes ...vg.Length) *plotter.Line {
	return &plotter.Line{XYs: points,
		LineStyle: draw.LineStyle{Color: seriesColor(index), Width: width, Dashes: dashes}}
}

// stretches are the runs of finite values of a line.
func (s line) stretches(e *extent) (list []plotter.XYs) {
	broken := true
	for i, y := range s.y {
		if !finite(y) {
			broken = true
			continue
		}
		if broken {
			list = append(list, nil)
			broken = false
		}
		last := len(list) - 1
		list[last] = append(list[last], plotter.XY{X: s.x[i], Y: y})
		e.see(s.x[i], y)
	}
	return list
}

// draw adds a line's stretches: a path, and its points as dots where there are few.
func (s line) draw(p *plot.Plot, stretches []plotter.XYs) {
	radius := vg.Length(2.6)
	if s.points {
		radius = 1.8
	}
	for _, stretch := range stretches {
		switch {
		case s.points || len(stretch) < 2:
		case s.dashed:
			p.Add(path(stretch, s.index, 1.2, 4, 3))
		default:
			p.Add(path(stretch, s.index, 1.8))
		}
		if s.dashed || s.bare && len(stretch) > 1 {
			continue
		}
		p.Add(&plotter.Scatter{XYs: stretch,
			GlyphStyle: draw.GlyphStyle{Color: seriesColor(s.index), Radius: radius, Shape: draw.CircleGlyph{}}})
	}
}

// mostValues is the number of points of a line that tell their values: a longer one has them at even distances.
const mostValues = 40

// valuePoints are invisible circles on the measured points. Each shows its value when a pointer is above it, and when
// it has the focus: the first takes it by the tabulator, the others by arrows, where the page has its script.
func valuePoints(lines []line, opt plotOptions, at func(x, y float64) (float64, float64)) (points, last string) {
	var out strings.Builder
	focus := 0
	for k, l := range lines {
		if l.points || l.dashed {
			continue
		}
		step := max(1, (len(l.y)+mostValues-1)/mostValues)
		for i := (len(l.y) - 1) % step; i < len(l.y); i += step { // the last one is among them
			if !finite(l.y[i]) {
				continue
			}
			words := strings.TrimSpace(fmt.Sprintf("%s %s: %s", opt.xLabel, tickOf(opt, l.x[i]), opt.value(l.y[i])))
			if l.name != "" && len(lines) > 1 {
				words += ", " + l.name
			}
			if k == 0 {
				last = clean(words)
			}
			words = template.HTMLEscapeString(clean(words))
			x, y := at(l.x[i], l.y[i])
			fmt.Fprintf(&out,
				`<circle class="value" cx="%.1f" cy="%.1f" r="8" fill="none" pointer-events="all" tabindex="%d" role="img" `+
					`aria-label="%s"><title>%[4]s</title></circle>`, x, y, focus, words)
			focus = -1
		}
	}
	return out.String(), last
}

// value writes a figure of the plot.
func (o plotOptions) value(v float64) string {
	switch {
	case o.percent:
		return percent(v, 2)
	case o.bound:
		return roundedUp(v, 4)
	}
	return significant(v, 4)
}

// tickOf is the label of the tick at x, or x.
func tickOf(o plotOptions, x float64) string {
	for _, t := range o.ticks {
		if t.Value == x {
			return t.Label
		}
	}
	if x == math.Trunc(x) && math.Abs(x) < 1e9 { // updates are counted
		return fmt.Sprintf("%.0f", x)
	}
	return significant(x, 4)
}

var (
	svgHead    = regexp.MustCompile(`(?s)^.*?<svg[^>]*>`)
	fontFamily = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;font-weight:[^;"]*;font-style:[^;"]*;?`)
)

// inlineSVG makes a stand-alone SVG part of a page: it takes the page's fonts and colours and the available width.
// points come on top of the drawing.
func inlineSVG(svg, title, points string, width, height vg.Length) template.HTML {
	role := "img"
	if points != "" {
		role = "group" // what is in an img is hidden from screen readers
	}
	head := fmt.Sprintf(`<svg viewBox="0 0 %g %g" role="%s" aria-label="%s" xmlns="http://www.w3.org/2000/svg">`,
		width.Points(), height.Points(), role, template.HTMLEscapeString(title))
	svg = strings.Replace(svg, "</svg>", points+"</svg>", 1)
	svg = svgHead.ReplaceAllLiteralString(svg, head)
	svg = fontFamily.ReplaceAllLiteralString(svg, "")
	// All text in it was escaped by the SVG writer.
	return template.HTML(toVariables.Replace(svg))
}

// clean makes a text valid for an SVG label: valid UTF-8 without control characters.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// niceTicks returns three to six round values that enclose low and high, and the range that they span.
func niceTicks(low, high float64, percent bool) (ticks []plot.Tick, from, to float64) {
	if span := high - low; span <= 1e-9*max(math.Abs(low), math.Abs(high)) {
		half := max(math.Abs(low)*0.05, 1e-3)
		if low, high = low-half, high+half; low == -half {
			low = 0 // of nothing but zeros
		}
	}
	rough := (high - low) / 4
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	step := power
	for _, factor := range []float64{1, 2, 2.5, 5, 10} {
		if step = factor * power; step >= rough {
			break
		}
	}
	first, last := math.Floor(low/step), math.Ceil(high/step)
	digits := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	if step/power == 2.5 {
		digits++
	}
	label := func(v float64) string {
		switch {
		case percent:
			return strconv.FormatFloat(v*100, 'f', max(0, digits-2), 64) + thinSpace + "%"
		case math.Abs(v) >= 1e6 || digits > 6:
			return strconv.FormatFloat(v, 'g', 4, 64)
		}
		return strconv.FormatFloat(v, 'f', digits, 64)
	}
	for i := first; i <= last && len(ticks) < 12; i++ {
		v := i * step
		if v == 0 {
			v = 0 // not −0
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: strings.Replace(label(v), "-", "−", 1)})
	}
	return ticks, first * step, last * step
}

// wholeTicks returns at most about eight whole numbers between left and right.
func wholeTicks(left, right float64) []plot.Tick {
	step := 1.0
	for _, factor := range []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000, 100000} {
		if step = factor; (right-left)/step <= 8 {
			break
		}
	}
	var ticks []plot.Tick
	for v := math.Ceil(left/step) * step; v <= right && len(ticks) < 12; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', 0, 64)})
	}
	return ticks
}
