package scoring_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// line are vectors on a line, whose places are their distances from a text at 0.
func line(places ...float32) embedding.Matrix {
	return embedding.Matrix{Rows: len(places), Dim: 1, Data: places}
}

// oneClient is a client with texts of given labels at given places.
func oneClient(t *testing.T, labels []int32, places ...float32) query.Clients {
	t.Helper()
	texts := line(places...)
	means, err := query.MeanEmbeddings(texts, []int{0, len(places)})
	if err != nil {
		t.Fatal(err)
	}
	return query.Clients{Means: means, Texts: texts, Offsets: []int{0, len(places)}, Labels: labels}
}

func contrast(t *testing.T, samples embedding.Matrix, labels []int32, q int, bound float64) scoring.Contrast {
	t.Helper()
	c, err := scoring.NewContrast(samples, labels, q, bound, "k")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestContrastByHand: the votes of one text within its label, also where the label has fewer samples than votes, where
// it has none, and where the text's label is not in the list.
func TestContrastByHand(t *testing.T) {
	samples, labels := line(1, 2, 3, 4, 9, 0), []int32{0, 0, 0, 0, 1, 2}
	for _, c := range []struct {
		name  string
		label int32
		q     int
		want  []float64
	}{
		{"two votes", 0, 2, []float64{1, .5, 0, 0, 0, 0, 0, 0, .5, 1, 0, 0}},
		{"one vote", 0, 1, []float64{1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}},
		{"fewer samples than votes", 1, 2, []float64{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0}},
		{"more votes than samples", 0, 5, []float64{1, .5, .25, .125, 0, 0, .125, .25, .5, 1, 0, 0}},
		{"a label without samples", 7, 2, make([]float64, 12)},
		{"an unknown label", -1, 2, make([]float64, 12)},
	} {
		q := contrast(t, samples, labels, c.q, 100)
		got, err := q.Vector(oneClient(t, []int32{c.label}, 0), 0)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v (%v)", c.name, got, c.want, err)
		}
	}
	// Labels without private texts keep zero.
	q := contrast(t, samples, labels, 2, 100)
	sum, err := q.Sum(oneClient(t, []int32{1, 1, 1}, 0, 5, 9))
	if err != nil || !slices.Equal(sum, []float64{0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 3, 0}) {
		t.Errorf("three texts of one label give %v (%v)", sum, err)
	}
}

// TestContrastNorm: the norm of one text's vector, and the norm of a client's with m texts, which is at most m times as
// large.
func TestContrastNorm(t *testing.T) {
	for q, want := range map[int]float64{1: math.Sqrt2, 8: 1.632981} {
		if got := scoring.ContrastNorm(q); math.Abs(got-want) > 1e-6 || !(got < math.Sqrt(8.0/3)) {
			t.Errorf("%d votes have the norm %.7f, want %.6f", q, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n, q := 1+r.IntN(30), 1+r.IntN(10)
		samples, labels := make([]float32, n), make([]int32, n)
		for i := range samples {
			samples[i], labels[i] = float32(r.NormFloat64()), int32(r.IntN(3))
		}
		m := 1 + r.IntN(5)
		texts, own := make([]float32, m), make([]int32, m)
		for i := range texts {
			texts[i], own[i] = float32(r.NormFloat64()), int32(r.IntN(5))-1
		}
		c := contrast(t, line(samples...), labels, q, 1e6)
		v, err := c.Vector(oneClient(t, own, texts...), 0)
		if err != nil {
			t.Fatal(err)
		}
		if norm := length(v); !(norm <= float64(m)*scoring.ContrastNorm(q)*(1+slack)) {
			t.Fatalf("%d texts with %d votes have the norm %g", m, q, norm)
		}
		// A text with another label or at another place moves the vector by at most two texts' norms.
		texts[0], own[0] = float32(r.NormFloat64()), int32(r.IntN(5))-1
		moved, err := c.Vector(oneClient(t, own, texts...), 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range moved {
			moved[i] -= v[i]
		}
		if norm := length(moved); !(norm <= 2*scoring.ContrastNorm(q)*(1+slack)) {
			t.Fatalf("another text moves the vector by %g", norm)
		}
	}
}

// TestContrastOfOneVote: with one vote, the near half of a client's vector is Private Evolution's vote: 1 for the
// sample that is nearest to each text.
func TestContrastOfOneVote(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		samples, texts := make([]float32, 1+r.IntN(20)), make([]float32, 1+r.IntN(6))
		for _, list := range [][]float32{samples, texts} {
			for i := range list {
				list[i] = float32(r.NormFloat64())
			}
		}
		client := oneClient(t, nil, texts...)
		got, err := contrast(t, line(samples...), nil, 1, 100).Vector(client, 0)
		if err != nil {
			t.Fatal(err)
		}
		votes, err := scoring.NewVotes(line(samples...),
			scoring.VoteOptions{Metric: scoring.L2, Choices: 1, Equal: true, Bound: 100}, "k")
		if err != nil {
			t.Fatal(err)
		}
		if want, err := votes.Vector(client, 0); err != nil || !slices.Equal(got[:len(samples)], want) {
			t.Fatalf("%v, want %v (%v)", got, want, err)
		}
	}
}

func TestContrastRefuses(t *testing.T) {
	for want, f := range map[string]func() error{
		"labels of 2 samples": func() error {
			_, err := scoring.NewContrast(line(1, 2), []int32{0}, 1, 1, "k")
			return err
		},
		"label number -1": func() error {
			_, err := scoring.NewContrast(line(1, 2), []int32{0, -1}, 1, 1, "k")
			return err
		},
		"votes for 0 samples": func() error { _, err := scoring.NewContrast(line(1, 2), nil, 0, 1, "k"); return err },
		"need the labels": func() error {
			q := contrast(t, line(1, 2), []int32{0, 1}, 1, 1)
			_, err := q.Vector(oneClient(t, nil, 0), 0)
			return err
		},
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
}
