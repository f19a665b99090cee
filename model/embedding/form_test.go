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
	f := &embedding.Joined{Encoder: h, Form: 0.5}
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

// TestWords: words stand behind embedding and form, with the given length. They do not depend on case, see the order of
// words and are further apart the fewer words two texts share.
func TestWords(t *testing.T) {
	h := fit(t, embedding.HashingConfig{Dim: 16})
	texts := []string{"please unlock the card", "Please UNLOCK the card", "card the unlock please", "please unlock the door",
		"nobody wrote anything else", "", "the the the the"}
	for _, form := range []float64{0, 0.5} {
		j := embedding.Join(h, form, 2).(*embedding.Joined)
		m, err := j.Encode(texts)
		if err != nil {
			t.Fatal(err)
		}
		from, to := j.FormAt()
		if m.Dim != to+embedding.WordsDim || (to > from) != (form > 0) || from != 16 {
			t.Fatalf("form %g: %d values, form from %d to %d", form, m.Dim, from, to)
		}
		dot := func(a, b int) (sum float64) {
			for i, x := range m.Row(a)[to:] {
				sum += float64(x) * float64(m.Row(b)[to+i])
			}
			return sum
		}
		for i, want := range []float64{4, 4, 4, 4, 4, 0, 4} {
			if got := dot(i, i); math.Abs(got-want) > 1e-5 {
				t.Errorf("%q has the squared length %g, want %g", texts[i], got, want)
			}
		}
		if same, order, one, none := dot(0, 1), dot(0, 2), dot(0, 3), dot(0, 4); math.Abs(same-4) > 1e-5 || order > 3 ||
			one > 3 || order < 1 || one < 1 || math.Abs(none) > 0.5 {
			t.Errorf("products: other case %g, other order %g, one other word %g, no common word %g", same, order, one, none)
		}
		plain := embedding.Join(h, form, 0)
		if embedding.Key(plain) == embedding.Key(j) || j.Name() == plain.Name() || embedding.Sentence(j) != embedding.Encoder(h) {
			t.Errorf("the keys are %s and %s", embedding.Key(plain), embedding.Key(j))
		}
	}
}

// FuzzForm: every text has finite measures within the bound, and a unit vector of words or none.
func FuzzForm(f *testing.F) {
	h := fit(f, embedding.HashingConfig{Dim: 8})
	form := &embedding.Joined{Encoder: h, Form: 1, Words: 1}
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
		from, to := form.FormAt()
		length := 0.0
		for _, v := range m.Data[to:] {
			length += float64(v) * float64(v)
		}
		if !(length == 0 || math.Abs(length-1) < 1e-5) {
			t.Fatalf("%q has words of the squared length %g", text, length)
		}
		for _, v := range m.Data[from:to] {
			if !(math.Abs(float64(v)) <= 4*form.Unit()*(1+1e-6)) {
				t.Fatalf("%q has the measure %g", text, v)
			}
		}
	})
}
