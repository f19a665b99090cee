package client

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"popri/fedsim/aggregate"
	"popri/fedsim/noise"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
	"popri/scoring/update"
)

// TestHostileTexts: whatever a client's texts are, its vector for the questions of generate.kinds and of masked Private
// Evolution keeps the bound that is charged, in steps of the grid too; texts that an encoder fails on are zeros.
func TestHostileTexts(t *testing.T) {
	hashing, err := embedding.FitHashing([]string{"word1 common", "word2 other"}, embedding.HashingConfig{Dim: 16})
	if err != nil {
		t.Fatal(err)
	}
	form := &embedding.Joined{Encoder: hashing, Form: 3, Words: 2} // as scoring.form has it, for kinds too
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
			steps, err := embedded(asked, encoder).steps(t.Context(), asked, texts, grid)
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

// trains is a trainer whose result is the same for all texts.
type trains func() ([]float64, error)

func (trains) Ready(update.Question) error { return nil }

func (f trains) Change(context.Context, update.Question, []string) ([]float64, error) { return f() }

// TestHostileTraining: whatever training on the texts gives, the vector keeps the bound that is charged and has the
// announced length: zeros where the training fails, diverges or has no end within the time.
func TestHostileTraining(t *testing.T) {
	q := update.Question{Training: update.Training{Clip: .5}, Weights: make([]float32, 3)}
	grid, err := noise.NewGrid(1, q.Clip, q.Len(), 100)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]trains{
		"long":   func() ([]float64, error) { return []float64{3, -4, 1e100}, nil },
		"short":  func() ([]float64, error) { return []float64{.1, 0, -.2}, nil },
		"NaN":    func() ([]float64, error) { return []float64{1, math.NaN(), 0}, nil },
		"error":  func() ([]float64, error) { return []float64{1, 1, 1}, errors.New("these texts") },
		"panic":  func() ([]float64, error) { panic("these texts") },
		"length": func() ([]float64, error) { return []float64{1}, nil },
	} {
		r := &Responder{ResponderOptions: ResponderOptions{Small: f}}
		compute, err := r.training(q)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := compute.steps(t.Context(), q, nil, grid)
		if err != nil || len(steps) != q.Len() {
			t.Fatal(name, len(steps), err)
		}
		norm := update.Norm(grid.Values(steps, false))
		if some := name == "long" || name == "short"; !(norm <= grid.Sensitivity) || some != (norm > 0) {
			t.Errorf("%s: a vector of norm %g, bound %g", name, norm, q.Clip)
		}
	}
}

// TestHostileQuestions: whatever question and encoder a trainer announces, no client's vector is longer than is charged.
func TestHostileQuestions(t *testing.T) {
	hashing, err := embedding.FitHashing([]string{"word1 common", "word2 other"}, embedding.HashingConfig{Dim: 16})
	if err != nil {
		t.Fatal(err)
	}
	least := float32(math.SmallestNonzeroFloat32)
	asked := 0
	for k, bound := range []float64{1e-320, 1e-175, 1e-150, 1e-58, 1e-58, 1, 1, 1e150, 1e300} {
		for _, size := range []float64{0, 1e-300, 1e-170, 1e-157, 1e-45, 1e-30, 1, 1e38, 1e300} {
			centre := slices.Repeat([]float64{size}, 16)
			centre[0] = float64(least) // an embedding less this has nothing but values of that size
			samples := embedding.NewMatrix(20, 16)
			for i := range samples.Data {
				samples.Data[i] = float32(min(size, math.MaxFloat32)) * float32(1+i%7) / 8
			}
			for _, name := range []string{"mean", "mean/full+9", "cosine/none", "cosine/standardize",
				"votes/l2/1/total", "votes/cosine/3/mean+9", "votes/l2/20/equal", "cosine/clipped/0.3"} {
				q := scoring.Question{Name: name, Key: "k", Bound: bound, Centre: centre, Samples: samples}
				m, err := q.Query()
				if err != nil {
					continue
				}
				a := &aggregate.Announcement{Version: 1, Nonce: "n", Round: 1, Question: make([]byte, 32), Query: name,
					Values: uint64(m.Len()), Bound: bound, Sigma: math.Pow(1e7, float64(k%2)), Clients: 1000, Least: 2,
					Deadline: 1, Proof: aggregate.RangeProof}
				if a.Validate() != nil {
					continue
				}
				grid, err := a.Grid()
				if err != nil {
					t.Fatal(err)
				}
				asked++
				for _, e := range []embedding.Encoder{hashing, constant{hashing, 1}, constant{hashing, math.MaxFloat32},
					constant{hashing, least}, first{hashing, least}, first{hashing, 0}} {
					steps, err := embedded(m, e).steps(t.Context(), m, slices.Repeat([]string{"word1", ""}, 20), grid)
					if err != nil {
						t.Fatal(err)
					}
					squares := 0.0
					for _, s := range steps {
						squares += float64(s) * float64(s)
					}
					if ratio := math.Sqrt(squares) / (grid.Sensitivity / grid.Step); !(ratio <= 1) {
						t.Errorf("%s, bound %g, values of %g: a vector has %.3g times the norm that is charged", name,
							bound, size, ratio)
					}
					if _, _, err := a.Split(make([]byte, 32), steps); err != nil {
						t.Errorf("%s, bound %g, values of %g: who has such texts does not report: %v", name, bound, size, err)
					}
				}
			}
		}
	}
	if asked < 200 {
		t.Errorf("%d questions were asked", asked)
	}
}

// first is an encoder whose values after the first are zeros.
type first struct {
	embedding.Encoder
	value float32
}

func (f first) Encode(texts []string) (embedding.Matrix, error) {
	m := embedding.NewMatrix(len(texts), f.Dim())
	for i := range len(texts) {
		m.Row(i)[0] = f.value
	}
	return m, nil
}
