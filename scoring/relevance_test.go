package scoring

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Texts of one document share a domain: with it, noisy scores tell domains apart that single scores do not.
func TestRelevanceGathersWhatADocumentSays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const documents, each = 60, 12
	var scores []float64
	var groups, alone []string
	for d := range documents {
		inside := 0.0
		if d < documents/4 {
			inside = 0.8
		}
		for range each {
			scores = append(scores, inside+r.NormFloat64())
			groups = append(groups, fmt.Sprint(d))
			alone = append(alone, "")
		}
	}
	// right is the share of pairs of texts, one of each kind, that are in order.
	right := func(v []float64) float64 {
		hits, n := 0.0, 0.0
		cut := documents / 4 * each
		for _, in := range v[:cut] {
			for _, out := range v[cut:] {
				if n++; in > out {
					hits++
				}
			}
		}
		return hits / n
	}
	plain, err := Relevance(scores)
	if err != nil {
		t.Fatal(err)
	}
	gathered, err := Relevance(scores, Level{groups, 4, 2})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := right(plain), right(gathered); a > 0.78 || b < 0.9 {
		t.Errorf("single scores order %.3f of the pairs, with documents %.3f", a, b)
	}
	// Texts that belong with nothing keep their order.
	single, err := Relevance(scores, Level{alone, 4, 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range single {
		if math.Abs(single[i]-plain[i]*(1+4.0/3)) > 1e-12 {
			t.Fatalf("text %d alone has %g, want %g", i, single[i], plain[i]*(1+4.0/3))
		}
	}
}

func TestRelevanceRefusals(t *testing.T) {
	if v, err := Relevance([]float64{2, 2, 2}, Level{[]string{"a", "a", "b"}, 1, 1}); err != nil || v[0] != 0 ||
		v[2] != 0 {
		t.Errorf("equal scores give %v (%v)", v, err)
	}
	for name, f := range map[string]func() ([]float64, error){
		"not a number": func() ([]float64, error) { return Relevance([]float64{1, math.NaN()}) },
		"lengths":      func() ([]float64, error) { return Relevance([]float64{1, 2}, Level{[]string{"a"}, 1, 1}) },
		"weight":       func() ([]float64, error) { return Relevance([]float64{1, 2}, Level{[]string{"a", "b"}, -1, 1}) },
		"prior": func() ([]float64, error) {
			return Relevance([]float64{1, 2}, Level{[]string{"a", "b"}, 1, math.NaN()})
		},
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
