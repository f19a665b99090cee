package report

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"popri/internal/atomicfile"
)

// Curve is a named line of a plot in a file of its own.
type Curve struct {
	Name string
	X, Y []float64 // of the same length; points that are not finite are left out
}

// Curves is a plot in a file of its own.
type Curves struct {
	Title, X, Y string
	Lines       []Curve
	LogY        bool // logarithmic axis; only values above 0 are shown
}

// palette can be told apart with any colour vision (Okabe and Ito 2008).
var palette = []color.Color{
	color.RGBA{R: 0, G: 114, B: 178, A: 255}, color.RGBA{R: 213, G: 94, B: 0, A: 255},
	color.RGBA{R: 0, G: 158, B: 115, A: 255},
	color.RGBA{R: 204, G: 121, B: 167, A: 255}, color.RGBA{R: 86, G: 180, B: 233, A: 255},
	color.RGBA{R: 230, G: 159, B: 0, A: 255}, color.RGBA{A: 255},
}

// Write draws the plot into a file, by its extension: .svg or .png.
func (c Curves) Write(path string) error {
	const width, height = 6.5 * vg.Inch, 4.2 * vg.Inch
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Legend.Top, p.Legend.Left = true, true
	if c.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	p.Add(plotter.NewGrid())
	shown := 0
	for i, l := range c.Lines {
		var points plotter.XYs
		for k, y := range l.Y {
			if math.IsNaN(y) || math.IsInf(y, 0) || c.LogY && y <= 0 {
				continue
			}
			points = append(points, plotter.XY{X: l.X[k], Y: y})
		}
		if len(points) == 0 {
			continue
		}
		shown++
		line, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("report: %s: %s: %w", path, l.Name, err)
		}
		line.Color, line.Width = palette[i%len(palette)], 1.6
		p.Add(line)
		p.Legend.Add(l.Name, line)
	}
	if shown == 0 {
		return fmt.Errorf("report: %s: there is nothing to draw", path)
	}
	var out io.WriterTo
	switch ending := strings.ToLower(filepath.Ext(path)); ending {
	case ".svg":
		canvas := vgsvg.New(width, height)
		p.Draw(draw.New(canvas))
		out = canvas
	case ".png":
		canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144))
		p.Draw(draw.New(canvas))
		out = vgimg.PngCanvas{Canvas: canvas}
	default:
		return fmt.Errorf("report: %s: a plot ends in .svg or .png, not %q", path, ending)
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := out.WriteTo(w)
		return err
	})
}
