package embedding_test

import (
	"math"
	"strings"
	"testing"

	"popri/internal/rng"
	"popri/model/embedding"
)

// TestForm: the embedding stands before the measures, each of which distinguishes the texts that it is for; what is
// read back from a mean is the mean of the measures.
func TestForm(t *testing.T) {
	h := fit(t, embedding.HashingConfig{Dim: 16})
	f := &embedding.Form{Encoder: h, Weight: 0.5}
	texts := []string{"The old man sat down near the sea.", "the old man sat down near the sea.",
		"THE OLD MAN SAT DOWN NEAR THE SEA.", "The 8 old men sat 2 hours.", "The old man... sat. Down.",
		"The, old, man, sat", "The: old; man:",
		"The old man? Who?", "The old man! Oh!",
		"\"The\" old \"man\"", "The man's wife's sea", "The-old-man – sat", "(The) old [man]", "the/old/man and/or",
		"* the old #man @sea",
		"Der für schöne Bär", "The old\nman\nsat", "", "  \n"}
	m, err := f.Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := h.Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	if m.Dim != f.Dim() || embedding.Key(f) == embedding.Key(h) || embedding.Sentence(f) != embedding.Encoder(h) {
		t.Errorf("%d values under the key %s", m.Dim, embedding.Key(f))
	}
	same(t, "meanings", embedding.Meaning(f, m).Data, plain.Data, 0)
	place := map[string]int{}
	for i, x := range embedding.FormMeasures {
		place[x.Name] = h.Dim() + i
	}
	value := func(text int, name string) float32 {
		at, ok := place[name]
		if !ok {
			t.Fatalf("there is no measure %q", name)
		}
		return m.Row(text)[at]
	}
	for text, name := range map[int]string{1: "texts without a capital", 2: "words in capitals",
		3: "words with a digit", 4: "full stops", 5: "commas", 6: "colons and semicolons", 7: "question marks",
		8: "exclamation marks", 9: "quotation marks",
		10: "apostrophes", 11: "hyphens and dashes",
		12: "brackets", 13: "slashes", 14: "other signs", 15: "signs beyond ASCII", 16: "line breaks"} {
		if value(text, name) <= value(0, name) {
			t.Errorf("%s: %q has %g, %q %g", name, texts[text], value(text, name), texts[0], value(0, name))
		}
	}
	bound := 4 * f.Unit() * (1 + 1e-6)
	for i := range texts {
		blank := strings.TrimSpace(texts[i]) == ""
		for j, v := range m.Row(i)[h.Dim():] {
			if blank && v != 0 || math.Abs(float64(v)) > bound {
				t.Errorf("%q: measure %q is %g", texts[i], embedding.FormMeasures[j].Name, v)
			}
		}
	}
	values := make([]float64, len(embedding.FormMeasures))
	for j, v := range m.Row(0)[h.Dim():] {
		values[j] = float64(v)
	}
	if got := f.Measured(values)[place["letters of a word"]-h.Dim()]; math.Abs(got-26.0/8) > 1e-6 { // within four deviations
		t.Errorf("%g letters a word", got)
	}
}

// FuzzForm: every text has finite measures within the bound.
func FuzzForm(f *testing.F) {
	h := fit(f, embedding.HashingConfig{Dim: 8})
	form := &embedding.Form{Encoder: h, Weight: 1}
	f.Add("A text, of 2 lines.\n* and a list")
	f.Add("\xff\xfe ..!?")
	f.Add(strings.Repeat("x", 1000))
	random := rng.New(1, "FuzzForm")
	f.Add(string([]rune{rune(random.IntN(0x10ffff)), 0x2028, 'a', 0x301}))
	f.Fuzz(func(t *testing.T, text string) {
		m, err := form.Encode([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range m.Data[h.Dim():] {
			if !(math.Abs(float64(v)) <= 4*form.Unit()*(1+1e-6)) {
				t.Fatalf("%q has the measure %g", text, v)
			}
		}
	})
}
