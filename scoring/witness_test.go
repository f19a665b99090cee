package scoring

import (
	"math"
	"testing"

	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring/query"
)

// released returns the mean score per client, without noise, and the gain that the clients themselves show.
func released(t *testing.T, samples, texts embedding.Matrix, o Options) (*Samples, []float64, float64) {
	t.Helper()
	offsets := make([]int, texts.Rows+1)
	for i := range offsets {
		offsets[i] = i
	}
	means, err := query.MeanEmbeddings(texts, offsets)
	if err != nil {
		t.Fatal(err)
	}
	s := prepare(t, samples, o)
	sum, err := s.Sum(means)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sum {
		sum[i] /= float64(texts.Rows)
	}
	gain, err := s.Gain(means)
	if err != nil {
		t.Fatal(err)
	}
	return s, sum, gain
}

func TestWitnessIsTheDifferenceOfMeanSimilarities(t *testing.T) {
	r := rng.New(1, t.Name())
	samples, texts := unitMatrix(r, 30, 7), unitMatrix(r, 50, 7)
	s, mean, gain := released(t, samples, texts, Options{None, 1e6})
	if gain != 1 {
		t.Errorf("gain %g where nothing is scaled", gain)
	}
	got, err := s.Witness(mean, gain)
	if err != nil {
		t.Fatal(err)
	}
	cosine := func(a, b []float32) float64 {
		var sum float64
		for j := range a {
			sum += float64(a[j]) * float64(b[j])
		}
		return sum
	}
	for i := range samples.Rows {
		var want float64
		for k := range texts.Rows {
			want += cosine(samples.Row(i), texts.Row(k)) / float64(texts.Rows)
		}
		for k := range samples.Rows {
			want -= cosine(samples.Row(i), samples.Row(k)) / float64(samples.Rows)
		}
		if math.Abs(got[i]-want) > 1e-6 {
			t.Fatalf("sample %d: %g, want %g", i, got[i], want)
		}
	}
}

// Where the samples already are what the clients have, no sample is better than another, though similarity still ranks.
func TestWitnessVanishesWhereSamplesMatch(t *testing.T) {
	r := rng.New(2, t.Name())
	texts := unitMatrix(r, 400, 12)
	for _, o := range []Options{{None, 1e6}, {None, 0.5}, {Standardized, 1}} {
		s, mean, gain := released(t, texts, texts, o)
		got, err := s.Witness(mean, gain)
		if err != nil {
			t.Fatal(err)
		}
		_, before := moments(mean)
		_, after := moments(got)
		if after > 0.1*before/gain {
			t.Errorf("%+v: the witness deviates by %g, similarity by %g", o, after, before/gain)
		}
	}
}

func TestWitnessRefusals(t *testing.T) {
	r := rng.New(3, t.Name())
	s, mean, _ := released(t, unitMatrix(r, 5, 3), unitMatrix(r, 5, 3), Options{Standardized, 1})
	for name, f := range map[string]func() error{
		"short": func() error { _, err := s.Witness(mean[1:], 1); return err },
		"gain":  func() error { _, err := s.Witness(mean, 0); return err },
		"dimension": func() error {
			_, err := s.Gain(query.Means{Clients: 1, Dim: 2, Data: make([]float64, 2)})
			return err
		},
		"silent": func() error {
			_, err := s.Gain(query.Means{Clients: 1, Dim: 3, Data: make([]float64, 3)})
			return err
		},
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
