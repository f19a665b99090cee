package words

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"popri/model/embedding"
	"popri/model/shipped"
	"popri/model/tokenizer"
)

// TestEncoder: tokens that are frequent in public text come first; the weighted frequencies of a text stand behind its embedding.
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
	if len(w.Tokens) != 8 || w.Tokens[0] != ids[len(ids)-1] || !slices.IsSortedFunc(w.Prior, func(a, b float64) int { return cmp.Compare(b, a) }) {
		t.Errorf("the tokens are %v, their prior %v", w.Tokens, w.Prior)
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
	for i, text := range texts {
		row := m.Row(i)
		if !slices.Equal(row[:16], alone.Row(i)) {
			t.Errorf("%q: the embedding changed", text)
		}
		counts, total := w.Count([]string{text})
		for k, n := range counts {
			want := float64(w.Weights[k]) * n / max(total, 1)
			if math.Abs(float64(row[16+k])-want) > 1e-4*want || math.Abs(float64(w.Weights[k])*math.Pow(w.Prior[k], whitening)-1) > 1e-5 {
				t.Errorf("%q: token %d has the value %g and the weight %g, want %g", text, w.Tokens[k], row[16+k], w.Weights[k], want)
			}
		}
	}
	for _, other := range [][]string{public[:2], nil} {
		v, err := New(sentences, tok, other, 8)
		if other == nil && err == nil || other != nil && (err != nil || v.Hash() == w.Hash()) {
			t.Errorf("public texts %q: %v, %v", other, v, err)
		}
	}
	if all, err := New(sentences, tok, public, 1<<20); err != nil || len(all.Tokens) >= tok.VocabSize() || slices.ContainsFunc(all.Tokens, tok.IsSpecial) {
		t.Errorf("of a vocabulary of %d, %d tokens are counted (%v)", tok.VocabSize(), len(all.Tokens), err)
	}
	if embedding.Sentence(w) != embedding.Encoder(sentences) || embedding.Sentence(sentences) != embedding.Encoder(sentences) {
		t.Error("the encoder of sentences is another")
	}
}
