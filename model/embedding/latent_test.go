package embedding_test

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"popri/model/embedding"
)

func fitLatent(t testing.TB, config embedding.LatentConfig) *embedding.Latent {
	t.Helper()
	// Words that keep company: each line draws from one of the suite's texts.
	var texts []string
	for _, triple := range triples {
		for _, text := range triple {
			words := strings.Fields(text)
			for i := range words {
				texts = append(texts, strings.Join(append(slices.Clone(words[i:]), words[:i]...), " "),
					strings.Join(words[:i+1], " "))
			}
		}
	}
	l, err := embedding.FitLatent(append(texts, public()...), config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLatent(t *testing.T) {
	for _, config := range []embedding.LatentConfig{{Dim: 32}, {Dim: 64, Terms: 300, Texts: 200, Seed: 3}} {
		t.Run(fitLatent(t, config).Name(), func(t *testing.T) { conforms(t, fitLatent(t, config), 0) })
	}
}

func TestLatentHash(t *testing.T) {
	a := fitLatent(t, embedding.LatentConfig{Dim: 16})
	before := runtime.GOMAXPROCS(1)
	b := fitLatent(t, embedding.LatentConfig{Dim: 16})
	runtime.GOMAXPROCS(before)
	if a.Hash() != b.Hash() {
		t.Error("the fit depends on the number of processors")
	}
	if c := fitLatent(t, embedding.LatentConfig{Dim: 17}); c.Hash() == a.Hash() {
		t.Error("the hash does not depend on the dimension")
	}
}

// A dimension more than the texts differ in is left at zero, and nothing becomes NaN.
func TestLatentOfFewDirections(t *testing.T) {
	var texts []string
	for range 50 {
		texts = append(texts, "alpha beta gamma", "delta epsilon zeta")
	}
	l, err := embedding.FitLatent(texts, embedding.LatentConfig{Dim: 20, Terms: 1000})
	if err != nil {
		t.Fatal(err)
	}
	m, err := l.Encode([]string{"alpha beta", "delta epsilon", "gamma", "unknown"})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range m.Data {
		if math.IsNaN(float64(v)) {
			t.Fatalf("value %d is NaN", i)
		}
	}
	if c := dot(m.Row(0), m.Row(1)); c > -0.9 {
		t.Errorf("the two topics have cosine %g", c)
	}
	if c := dot(m.Row(0), m.Row(2)); c < 0.9 {
		t.Errorf("words of one topic have cosine %g", c)
	}
}

func TestFitLatentRefuses(t *testing.T) {
	for _, c := range []struct {
		public []string
		config embedding.LatentConfig
	}{{nil, embedding.LatentConfig{}}, {public(), embedding.LatentConfig{Dim: 1}}, {public(),
		embedding.LatentConfig{Dim: 100, Terms: 50}},
		{[]string{"a b c", "d e f"}, embedding.LatentConfig{Dim: 2}},
		{public()[:10], embedding.LatentConfig{Dim: 20}}} {
		if _, err := embedding.FitLatent(c.public, c.config); err == nil {
			t.Errorf("FitLatent(%d texts, %+v) gave no error", len(c.public), c.config)
		}
	}
}

func BenchmarkLatent(b *testing.B) {
	l := fitLatent(b, embedding.LatentConfig{Dim: 256, Terms: 1 << 15})
	texts := public()
	for b.Loop() {
		if _, err := l.Encode(texts); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(texts)*b.N)/b.Elapsed().Seconds(), "texts/s")
}
