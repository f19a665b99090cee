package metrics

import (
	"math"
	"testing"
)

// TestBLEU against nltk 3.9's sentence_bleu without smoothing, for texts of four words or more.
func TestBLEU(t *testing.T) {
	for _, c := range []struct {
		text, reference string
		want            float64
	}{
		{"the cat sat on the mat today", "the cat sat on the mat today", 1},
		{"the cat sat on the mat", "the cat sat on a mat today", 0.4548019047027907},
		{"the the the the the", "the cat is on the mat", 0},
		{"one two three four five six", "zero one two three four nine six seven", 0.38498150077635496},
		{"a b", "a b", 1},
		{"a b", "c d", 0},
		{"", "c d", 0},
	} {
		if got := BLEU(c.text, c.reference); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%q against %q: %.12f, want %.12f", c.text, c.reference, got, c.want)
		}
	}
}
