package aggregate

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

const dim = 6

// samples are random unit vectors.
func samples(n int) embedding.Matrix {
	m := embedding.NewMatrix(n, dim)
	r := rng.New(1, "samples")
	for i := range m.Data {
		m.Data[i] = float32(r.NormFloat64())
	}
	return scoring.Unit(m)
}

// people are made-up clients' means.
func people(n int) query.Clients {
	c := query.Clients{Means: query.Means{Clients: n, Dim: dim}}
	r := rng.New(2, "people")
	for range n * dim {
		c.Data = append(c.Data, r.NormFloat64()/3)
	}
	return c
}

// question writes a question about samples and reads it again.
func question(t testing.TB, change func(*Question)) (Question, query.Query) {
	t.Helper()
	asked, err := scoring.NewCompact(samples(20), scoring.Options{Normalize: scoring.Standardized, Clip: 2},
		"key of the samples")
	if err != nil {
		t.Fatal(err)
	}
	described, err := scoring.Describe(asked)
	if err != nil {
		t.Fatal(err)
	}
	q := Question{Question: described, Round: 3, Clients: 40, Encoder: "encoder-1"}
	if change != nil {
		change(&q)
	}
	path := filepath.Join(t.TempDir(), "question.safetensors")
	if err := q.Write(path); err != nil {
		t.Fatal(err)
	}
	read, m, err := ReadQuestion(path)
	if err != nil {
		t.Fatal(err)
	}
	return read, m
}

// TestForm: a question says the weight of form, one without form is written as before, and an impossible weight is
// refused.
func TestForm(t *testing.T) {
	q, _ := question(t, func(q *Question) { q.Form = 0.5 })
	e, err := embedding.FitHashing([]string{"one", "two"}, embedding.HashingConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if form, ok := q.With(e).(*embedding.Form); !ok || form.Weight != 0.5 || form.Encoder != embedding.Encoder(e) {
		t.Errorf("the encoder is %v", q.With(e))
	}
	if q, _ := question(t, nil); q.With(e) != embedding.Encoder(e) {
		t.Error("a question without form measures it")
	}
	for _, weight := range []float64{-1, 11} {
		bad := q
		bad.Form = weight
		path := filepath.Join(t.TempDir(), "question")
		if err := bad.Write(path); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadQuestion(path); !fault.IsUser(err) || !strings.Contains(err.Error(), "weight") {
			t.Errorf("weight %g: %v", weight, err)
		}
	}
}

// The question that is read is the one that was asked, for every kind, and its file does not depend on when it is
// written.
func TestQuestion(t *testing.T) {
	for _, name := range []string{"cosine/none", "cosine/standardize", "compact/none", "mean", "mean/full+5",
		"votes/l2/2/mean", "cosine/clipped/0.5"} {
		asked, err := scoring.Ask(name, 1.5, samples(9), "key")
		if err != nil {
			t.Fatal(err)
		}
		described, err := scoring.Describe(asked)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for range 2 {
			q, m := question(t, func(q *Question) { q.Question, q.Since = described, "1945-06" })
			ids = append(ids, q.ID)
			if q.Round != 3 || q.Clients != 40 || q.Since != "1945-06" || m.Name() != asked.Name() ||
				m.Key() != asked.Key() || m.Bound() != asked.Bound() || m.Len() != asked.Len() || max(q.Samples.Dim, len(q.Centre)) != dim {
				t.Errorf("%s is read as %+v", name, q)
			}
			if m.NeedsTexts() {
				continue
			}
			x, err := asked.Sum(people(5))
			y, errRead := m.Sum(people(5))
			if err != nil || errRead != nil || !slices.Equal(x, y) {
				t.Errorf("%s: the sum is another one (%v, %v)", name, err, errRead)
			}
		}
		if ids[0] != ids[1] {
			t.Errorf("%s: written twice, the file differs", name)
		}
	}
}
