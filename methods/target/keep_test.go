package target

import (
	"fmt"
	"math"
	"testing"

	"popri/embedding"
	"popri/internal/rng"
	"popri/sampling"
)

// TestKeep: rows are drawn so that their mean comes to the clients', and no nearer than the floor on the effective number of
// texts allows.
func TestKeep(t *testing.T) {
	random := rng.New(1, "keep")
	p := &Pool{Points: embedding.NewMatrix(1, 4), Centre: make([]float64, 4)}
	target := &Target{Pool: p, Mean: []float64{0.3, 0, 0, 0}, Noise: 1e-3}
	points := embedding.NewMatrix(400, 4)
	for i := range points.Data {
		points.Data[i] = float32(0.4 * random.NormFloat64())
	}
	for _, floor := range []float64{100, 350} {
		copies, w, err := target.copies(points, 1000, floor, 7)
		if err != nil {
			t.Fatal(err)
		}
		rows, mean := 0, 0.0
		for i, n := range copies {
			rows += n
			mean += float64(n) * float64(points.Row(i)[0]) / 1000
		}
		if near := math.Abs(mean-0.3) < 0.02; rows != 1000 || w.Effective < 0.999*floor || near != (floor == 100) {
			t.Errorf("floor %g: %d rows of mean %g, effective size %g", floor, rows, mean, w.Effective)
		}
	}
}

// table is an encoder whose vectors are given.
type table map[string][]float32

func (t table) Name() string { return "table" }
func (t table) Dim() int     { return 4 }
func (t table) Encode(texts []string) (embedding.Matrix, error) {
	m := embedding.NewMatrix(len(texts), 4)
	for i, text := range texts {
		copy(m.Row(i), t[text])
	}
	return m, nil
}

// TestMix: written texts get more rows than their share where they bring the mean nearer to the clients', and fewer where
// public text is there already.
func TestMix(t *testing.T) {
	random := rng.New(1, "mix")
	const n = 300
	encoder, p := table{}, &Pool{Points: embedding.NewMatrix(n, 4), Centre: make([]float64, 4)}
	p.Vectors = p.Points
	var chosen []Chosen
	var written []sampling.Row
	for i := range n {
		row, own := p.Points.Row(i), make([]float32, 4)
		for j := range row {
			row[j], own[j] = float32(0.1*random.NormFloat64()), float32(0.1*random.NormFloat64())
		}
		row[0]++
		own[1]++
		text := fmt.Sprintf("public %d", i)
		chosen = append(chosen, Chosen{Text: text, Weight: 1.0 / n, Index: int64(i)})
		written = append(written, sampling.Row{Text: fmt.Sprintf("written %d", i), Finish: "stop"})
		encoder[written[i].Text] = own
	}
	written = append(written, sampling.Row{Finish: "stop"}) // an empty text
	for _, c := range []struct{ public, share, least, most float64 }{{0.7, 0.5, 0.25, 0.35}, {0.2, 0.5, 0.75, 0.85}} {
		of := &Target{Pool: p, Mean: []float64{c.public, 1 - c.public, 0, 0}, Noise: 1e-3}
		rows, mixed, err := of.Mix(encoder, chosen, written, c.share, 0.3, 1000, 7)
		if err != nil {
			t.Fatal(err)
		}
		own := 0.0
		for i, r := range rows {
			if r.Text == "" {
				t.Error("an empty text is in the product")
			}
			if r.Finish == sampling.Public {
				if i > 0 && rows[i-1].Finish != sampling.Public {
					t.Fatal("a public row stands after a written one")
				}
				continue
			}
			own++
		}
		if own /= 1000; len(rows) != 1000 || own < c.least || own > c.most || math.Abs(own-mixed.Written) > 2e-3 {
			t.Errorf("clients' mean at %g of public text: %d rows, %g of them written, said %g", c.public, len(rows), own, mixed.Written)
		}
		if !(mixed.Weighted < mixed.Distance) || mixed.Effective < 0.3*2*n*(1-1e-6) {
			t.Errorf("%+v", mixed)
		}
	}
	if _, _, err := (&Target{Pool: p, Mean: make([]float64, 4)}).Mix(encoder, chosen, written[n:], 0.5, 0.5, 10, 1); err == nil {
		t.Error("a product without a written text is mixed")
	}
}
