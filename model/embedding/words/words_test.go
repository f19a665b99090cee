package words

import (
	"math"
	"slices"
	"strings"
	"testing"

	"popri/model/embedding"
	"popri/model/shipped"
	"popri/model/tokenizer"
)

// TestEncoder: the most frequent tokens and pairs are counted, behind the embedding, and all vectors have one length.
func TestEncoder(t *testing.T) {
	dir, err := shipped.Dir(shipped.Generator)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	public := []string{"the the the the", "the reader returns the error", "the reader returns", "an error of the reader"}
	sentences, err := embedding.FitHashing(public, embedding.HashingConfig{Dim: 16})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(sentences, tok, public, 8)
	if err != nil {
		t.Fatal(err)
	}
	ids := tok.Encode(public[0])
	the := ids[len(ids)-1]
	if len(w.Grams) != 8 || w.Grams[0] != (Gram{None, the}) || !slices.Contains(w.Grams, Gram{the, the}) {
		t.Errorf("the grams are %v", w.Grams)
	}
	texts := append([]string{"the reader", strings.Repeat("the reader ", 7), ""}, public...)
	m, err := w.Encode(texts)
	if err != nil || m.Dim != 24 || w.Dim() != 24 {
		t.Fatalf("%d values a text, %d said (%v)", m.Dim, w.Dim(), err)
	}
	alone, err := sentences.Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range texts {
		row, square := m.Row(i), 0.0
		if !slices.Equal(row[:16], alone.Row(i)) {
			t.Errorf("%q: the embedding changed", texts[i])
		}
		for _, x := range row {
			square += float64(x) * float64(x)
		}
		if want := 1 / (1 - Share); texts[i] != "" && math.Abs(square-want) > 1e-5 {
			t.Errorf("%q: squared length %g, want %g", texts[i], square, want)
		}
	}
	if !slices.Equal(w.Beside(alone, texts).Data, m.Data) {
		t.Error("frequencies beside given embeddings differ")
	}
	for _, other := range [][]string{public[:2], nil} {
		v, err := New(sentences, tok, other, 8)
		if other == nil && err == nil || other != nil && (err != nil || v.Hash() == w.Hash()) {
			t.Errorf("public texts %q: %v, %v", other, v, err)
		}
	}
	if embedding.Sentence(w) != embedding.Encoder(sentences) || embedding.Sentence(sentences) != embedding.Encoder(sentences) {
		t.Error("the encoder of sentences is another")
	}
}
