package keyboard

import (
	"reflect"
	"slices"
	"testing"

	"popri/model/tokenizer"
)

// vocabulary has the words a, ab, abc and b, each as one token, and the logits of a model that finds b likeliest.
func vocabulary(t *testing.T) (*tokenizer.Tokenizer, []float32) {
	t.Helper()
	tok, err := tokenizer.TrainBPE(slices.Values(slices.Repeat([]string{"x a ab abc b"}, 9)),
		tokenizer.TrainOptions{VocabSize: 270})
	if err != nil {
		t.Fatal(err)
	}
	logits := make([]float32, tok.VocabSize())
	for i := range logits {
		logits[i] = 9 // of tokens that are no words
	}
	for word, logit := range map[string]float32{"Ġa": 3, "Ġab": 1, "Ġabc": 2, "Ġb": 5} {
		id, ok := tok.ID(word)
		if !ok {
			t.Fatalf("the vocabulary has no %q", word)
		}
		logits[id] = logit
	}
	return tok, logits
}

func TestSuggest(t *testing.T) {
	tok, logits := vocabulary(t)
	k := New(tok)
	for typed, want := range map[string][]string{"": {"b", "a", "abc"}, "a": {"a", "abc", "ab"}, "ab": {"abc", "ab"},
		"abc": {"abc"}, "x": nil} {
		if got := k.Suggest(logits, typed); !reflect.DeepEqual(got, want) {
			t.Errorf("after %q: %q, want %q", typed, got, want)
		}
	}
}

// A word is followed through its tokens, and each is saved from the letter on at which it is suggested.
func TestSaved(t *testing.T) {
	tok, logits := vocabulary(t)
	k := New(tok)
	ids := tok.Encode(" ab.abc abca b")
	var words []string
	for i := range ids {
		if w := k.Begins(ids, i); w != "" {
			words = append(words, w)
		}
	}
	if want := []string{"ab", "abca", "b"}; !reflect.DeepEqual(words, want) {
		t.Errorf("%q, want %q", words, want)
	}
	for word, want := range map[string]int{"b": 1, "abc": 3, "ab": 1, "abca": 0, "": 0} {
		if got := k.Saved(logits, word); got != want {
			t.Errorf("%q: %d keystrokes saved, want %d", word, got, want)
		}
	}
}
