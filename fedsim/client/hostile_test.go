package client

import (
	"math"
	"slices"
	"strings"
	"testing"

	"popri/fedsim/noise"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// TestHostileTexts: whatever a client's texts are, its vector for the questions of generate.kinds and of masked Private
// Evolution keeps the bound that is charged, in steps of the grid too; texts that an encoder fails on are zeros.
func TestHostileTexts(t *testing.T) {
	hashing, err := embedding.FitHashing([]string{"word1 common", "word2 other"}, embedding.HashingConfig{Dim: 16})
	if err != nil {
		t.Fatal(err)
	}
	form := &embedding.Form{Encoder: hashing, Weight: 3} // as scoring.form has it, for kinds too
	texts := map[string][]string{
		"none": nil, "empty": {"", " \n\t"}, "huge": {strings.Repeat("word1 COMMON!!! 17 ", 2e4)},
		"one character": {strings.Repeat("a", 1e5)}, "one repeated": slices.Repeat([]string{"word1"}, 2e4), "no UTF-8": {"\xff\xfe\x00", "a\x00b"},
		"marks": {strings.Repeat("\u0301\u202e\"'?!;:,.", 1e4)},
	}
	const bound = 0.5
	samples, err := form.Encode([]string{"word1", "word2 Common.", "other?", ""})
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := scoring.NewMean(form.Dim(), scoring.MeanOptions{Full: true, Bound: bound, Checks: 8}, "kinds")
	if err != nil {
		t.Fatal(err)
	}
	votes, err := scoring.NewVotes(samples, scoring.VoteOptions{Metric: scoring.L2, Choices: 1, Bound: bound}, "votes")
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []query.Query{kinds, votes} {
		grid, err := noise.NewGrid(1, bound, asked.Len(), 100)
		if err != nil {
			t.Fatal(err)
		}
		length := func(texts []string, encoder embedding.Encoder) float64 {
			steps, err := Vector(t.Context(), asked, encoder, texts, grid)
			if err != nil || len(steps) != asked.Len() {
				t.Fatal(len(steps), err)
			}
			squares := 0.0
			for _, s := range steps {
				squares += math.Pow(grid.Value(s), 2)
			}
			return math.Sqrt(squares)
		}
		for name, list := range texts {
			some := strings.TrimSpace(strings.Join(list, "")) != ""
			if norm := length(list, form); !(norm <= grid.Sensitivity) || some && norm == 0 || list == nil && norm > 0 {
				t.Errorf("%s of %s texts has norm %g, bound %g", asked.Name(), name, norm, bound)
			}
		}
		for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32} {
			norm := length([]string{"word1", "word2"}, constant{form, float32(value)})
			if finite := value == math.MaxFloat32; !(norm <= grid.Sensitivity) || (norm > 0) != finite {
				t.Errorf("%s of embeddings that are %g has norm %g", asked.Name(), value, norm)
			}
		}
	}
}

// constant is an encoder whose values are all the same.
type constant struct {
	embedding.Encoder
	value float32
}

func (c constant) Encode(texts []string) (embedding.Matrix, error) {
	m := embedding.NewMatrix(len(texts), c.Dim())
	for i := range m.Data {
		m.Data[i] = c.value
	}
	return m, nil
}
