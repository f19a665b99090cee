package buttress

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
)

// TestChoose: the texts with the largest gains are kept, the first of equal ones, in their order; all if keep is 1,
// whatever γ is.
func TestChoose(t *testing.T) {
	gains := []float64{0, .5, -1, .5, .2, .5, 0, 0, 0, -3}
	for _, c := range []struct {
		keep, gamma float64
		want        []int
	}{{.2, 0, []int{1, 3}}, {.4, 0, []int{1, 3, 4, 5}}, {.5, 0, []int{0, 1, 3, 4, 5}}, {.01, 0, []int{1}},
		{1, 0, numeric.Indices(10)}, {1, 3, numeric.Indices(10)}, {.4, 1e6, []int{1, 3, 4, 5}}} {
		if got := choose(gains, Settings{Keep: c.keep, Gamma: c.gamma}, rng.New(1)); !slices.Equal(got, c.want) {
			t.Errorf("keep %g, γ %g: %v, want %v", c.keep, c.gamma, got, c.want)
		}
	}
}

// TestDraw: of two texts, each of three is drawn as often as successive draws with weights exp(γ·gain) say; without gains,
// all equally often.
func TestDraw(t *testing.T) {
	const draws = 20000
	for name, gains := range map[string][]float64{"equal": {0, 0, 0}, "weights 1, 2, 4": {0, .5, 1}} {
		random, gamma, got := rng.New(1), 2*math.Ln2, make([]float64, 3)
		for range draws {
			for _, i := range choose(gains, Settings{Keep: 2. / 3, Gamma: gamma}, random) {
				got[i]++
			}
		}
		var w []float64
		sum := 0.0
		for _, g := range gains {
			w = append(w, math.Exp(gamma*g))
			sum += w[len(w)-1]
		}
		for i := range w {
			want := w[i] / sum
			for j := range w {
				if j != i {
					want += w[j] / sum * w[i] / (sum - w[j])
				}
			}
			if math.Abs(got[i]/draws-want) > 5*math.Sqrt(want*(1-want)/draws) {
				t.Errorf("%s: text %d is drawn with frequency %.4f, want %.4f", name, i, got[i]/draws, want)
			}
		}
	}
}

// The kept texts are the product, unless the earlier set was replaced by one of as many texts.
func TestProductOfAnotherSet(t *testing.T) {
	dir := t.TempDir()
	m := &Method{method.Env{Dir: dir}, earlier{texts: filepath.Join(dir, "set.parquet")}}
	if err := os.MkdirAll(rundir.Round(dir, 1), 0o755); err != nil {
		t.Fatal(err)
	}
	product := func(second string) ([]sampling.Row, error) {
		if err := rows.Write(m.texts, []sampling.Row{{Text: "one"}, {Text: second}}); err != nil {
			t.Fatal(err)
		}
		return m.Product(t.Context(), rounds.Stage{}, filepath.Join(dir, "kept.parquet"))
	}
	if err := rows.Write(filepath.Join(rundir.Round(dir, 1), rundir.Selection),
		[]scored{{Text: "one"}, {Text: "two", Copies: 1}}); err != nil {
		t.Fatal(err)
	}
	if kept, err := product("two"); err != nil || len(kept) != 1 || kept[0].Text != "two" {
		t.Errorf("%v: %v", err, kept)
	}
	if kept, err := product("three"); err == nil {
		t.Errorf("texts that nobody scored are kept: %v", kept)
	}
}
