package target

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"popri/datasets"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring"
)

func TestLevels(t *testing.T) {
	levels := levels([]datasets.Text{{Source: "a/b/c.go"}, {Source: "top.txt"}, {}, {Source: "/rooted"}})
	if len(levels) != 2 || !reflect.DeepEqual(levels[0].Groups, []string{"a/b/c.go", "top.txt", "", "/rooted"}) ||
		!reflect.DeepEqual(levels[1].Groups, []string{"a/b", "", "", ""}) {
		t.Errorf("%+v", levels)
	}
}

// TestDraw: every weight is drawn its expected number of times, rounded up or down, and all rows are drawn.
func TestDraw(t *testing.T) {
	weights := []float64{0.5, 0.26, 0.14, 0.1, 0}
	for _, start := range []float64{0, 0.3, 0.999999} {
		total := 0
		for i, copies := range Copies(weights, 17, start) {
			if want := 17 * weights[i]; float64(copies) < math.Floor(want) || float64(copies) > math.Ceil(want) {
				t.Errorf("weight %g is drawn %d times of 17", weights[i], copies)
			}
			total += copies
		}
		if total != 17 {
			t.Errorf("%d rows drawn of 17", total)
		}
	}
}

// TestChoose: candidates are matched to the clients' mean. Texts of two documents surround two directions; the clients'
// mean is near the first, and so do most rows.
func TestChoose(t *testing.T) {
	random := rng.New(1, "choose")
	p := &Pool{Vectors: embedding.NewMatrix(200, 6)}
	for i := range 200 {
		source := fmt.Sprintf("a/%d.txt", i%2)
		p.Texts = append(p.Texts, datasets.Text{Text: fmt.Sprintf("text %d", i), Source: source})
		row := p.Vectors.Row(i)
		for j := range row {
			row[j] = float32(0.4 * random.NormFloat64())
		}
		row[i%2]++
	}
	p.Vectors = scoring.Unit(p.Vectors)
	p.Centre = mean(p.Vectors)
	t1 := &Target{Pool: p, Mean: make([]float64, 6), Noise: 1e-3}
	t1.Mean[0], t1.Mean[1] = 0.2, -0.2
	c := Settings{Texts: 150, Weights: "matched"}
	s, err := t1.choose(c, 7)
	if err != nil {
		t.Fatal(err)
	}
	rows, first := 0, 0
	for i, x := range s.Chosen {
		if rows += int(x.Copies); x.Source == "a/0.txt" {
			first += int(x.Copies)
		}
		if i > 0 && x.Relevance > s.Chosen[i-1].Relevance || x.Copies < 1 {
			t.Errorf("text %d: %+v", i, x)
		}
	}
	if rows != AllRows || 3*first < 2*rows || s.Effective < 74.9 || s.Distance > 1e-3*math.Sqrt(6)*1.06 {
		t.Errorf("%d rows, %d of the near document, effective size %g, distance %g", rows, first, s.Effective,
			s.Distance)
	}
	c.Weights = "prior"
	plain, err := t1.choose(c, 7)
	if err != nil || plain.Distance <= s.Distance {
		t.Errorf("matched %g with %g texts, not matched %g with %g (%v)", s.Distance, s.Effective, plain.Distance,
			plain.Effective, err)
	}
	c.Weights, t1.Mean[0] = "matched", 50
	if _, err := t1.choose(c, 7); !fault.IsUser(err) {
		t.Errorf("clients that no public text resembles give %v", err)
	}
}
