package embedding_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"popri/internal/rng"
	"popri/model/embedding"
)

// public is text to fit on: the suite's own words in other orders, so that the weights are about even.
func public() []string {
	var words []string
	for _, triple := range triples {
		for _, text := range triple {
			words = append(words, strings.Fields(text)...)
		}
	}
	random := rng.New(1, "public")
	texts := make([]string, 400)
	for i := range texts {
		line := make([]string, 12)
		for j := range line {
			line[j] = words[random.IntN(len(words))]
		}
		texts[i] = strings.Join(line, " ")
	}
	return texts
}

func fit(t testing.TB, config embedding.HashingConfig) *embedding.Hashing {
	t.Helper()
	h, err := embedding.FitHashing(public(), config)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHashing(t *testing.T) {
	for _, config := range []embedding.HashingConfig{{}, {Dim: 100}, {Dim: 512}} {
		t.Run(fmt.Sprintf("%+v", config), func(t *testing.T) { conforms(t, fit(t, config), 0) })
	}
}

func TestHashingBlankTextIsZero(t *testing.T) {
	m, err := fit(t, embedding.HashingConfig{}).Encode([]string{"", " \n"})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range m.Data {
		if v != 0 {
			t.Fatalf("a blank text gives %g", v)
		}
	}
}

func TestHashingIgnoresCaseAndSpace(t *testing.T) {
	m, err := fit(t, embedding.HashingConfig{}).Encode([]string{"The Reader returns ÜBER", "the  reader\nRETURNS über"})
	if err != nil {
		t.Fatal(err)
	}
	if c := dot(m.Row(0), m.Row(1)); math.Abs(c-1) > 1e-6 {
		t.Errorf("cosine %g", c)
	}
}

func TestHashingHash(t *testing.T) {
	a, b := fit(t, embedding.HashingConfig{}), fit(t, embedding.HashingConfig{})
	if a.Hash() != b.Hash() || embedding.Key(a) != embedding.Key(b) || !strings.HasPrefix(embedding.Key(a), a.Name()) {
		t.Errorf("two fits differ: %s and %s", embedding.Key(a), embedding.Key(b))
	}
	other, err := embedding.FitHashing(public()[1:], embedding.HashingConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*embedding.Hashing{"dim": fit(t, embedding.HashingConfig{Dim: 128}),
		"texts": other} {
		if h.Hash() == a.Hash() {
			t.Errorf("%s does not change the hash", name)
		}
	}
}

func TestFitHashingRefuses(t *testing.T) {
	for _, c := range []struct {
		public []string
		config embedding.HashingConfig
	}{{nil, embedding.HashingConfig{}}, {[]string{"a"}, embedding.HashingConfig{Dim: 4}}, {[]string{"a"},
		embedding.HashingConfig{Dim: 1 << 20}}} {
		if _, err := embedding.FitHashing(c.public, c.config); err == nil {
			t.Errorf("FitHashing(%d texts, %+v) gave no error", len(c.public), c.config)
		}
	}
}

func FuzzHashing(f *testing.F) {
	h := fit(f, embedding.HashingConfig{})
	f.Add("a text")
	f.Add("\xff\x00 日本")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := h.Encode([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		if n := dot(m.Row(0), m.Row(0)); n != 0 && math.Abs(n-1) > 1e-5 {
			t.Errorf("%q: squared length %g", text, n)
		}
	})
}

func BenchmarkHashing(b *testing.B) {
	h := fit(b, embedding.HashingConfig{})
	texts := public()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Encode(texts); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(texts)*b.N)/b.Elapsed().Seconds(), "texts/s")
}
