package report

import (
	"bytes"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCurves(t *testing.T) {
	dir := t.TempDir()
	c := Curves{Title: "ε over rounds", X: "rounds", Y: "ε", Lines: []Curve{{Name: "σ = 1", X: []float64{1, 2, 3}, Y: []float64{1, math.Inf(1), 3}},
		{Name: "σ = 2", X: []float64{1, 2, 3}, Y: []float64{0, 1, 2}}}}
	for _, logarithmic := range []bool{false, true} {
		c.LogY = logarithmic
		svg, picture := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.png")
		for _, path := range []string{svg, picture} {
			if err := c.Write(path); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(svg)
		if err != nil || !bytes.Contains(b, []byte("σ = 2")) || !bytes.Contains(b, []byte("rounds")) {
			t.Errorf("%d bytes of SVG (%v)", len(b), err)
		}
		b, err = os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		if image, err := png.Decode(bytes.NewReader(b)); err != nil || image.Bounds().Dx() < 500 {
			t.Errorf("picture: %v", err)
		}
	}
	for path, want := range map[string]string{"a.pdf": ".svg or .png", "missing/a.svg": "missing"} {
		if err := c.Write(filepath.Join(dir, path)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	c.Lines = c.Lines[:1]
	c.Lines[0].Y = []float64{math.NaN(), math.Inf(1), math.NaN()}
	if err := c.Write(filepath.Join(dir, "b.svg")); err == nil {
		t.Error("nothing was drawn without complaint")
	}
}
