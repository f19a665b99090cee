package evolution

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"popri/datasets"
)

// Request asks a language model for one text.
type Request struct {
	Kind Kind // Rephrase, Fill or Expand
	// Parent is the text to vary; "" where Kind is Expand.
	Parent string
	// Quotes are other texts to quote before it: samples of the same population, or survivors where Kind is Expand.
	Quotes []string
	// Beginning is what Fill keeps of Parent: its first words, one space between them; "" asks for a whole text.
	Beginning string
	// MaskShare is the mean share of Parent's words that Fill drops. A masked model does not read Beginning: it masks words
	// of Parent anywhere, by its own draw from the seed.
	MaskShare float64
	// Label is that of Parent and Quotes; "" for none.
	Label string
}

// Writer writes texts with a language model. It returns one whole text for each request, which for Fill by a causal model
// begins with Beginning; an empty one means that the model wrote nothing. Equal requests and seeds give equal texts.
type Writer interface {
	Write(ctx context.Context, requests []Request, seed uint64) ([]string, error)
}

// Beginning returns the first words of text, for a causal model to continue: fill in the blank for a model that reads from
// left to right. The share of words that is dropped is U^((1−share)/share) with U uniform on [0, 1): its mean is share and
// any word may be dropped, the last ones most often. At least one word is.
//
// It differs from the masked models of PrE-Text and Aug-PE: those drop words anywhere, read what stands on both sides of a
// blank and keep the length; here all words after the cut are new, what follows the cut is not read, the length may
// change, and the first words of a text last longer in a population than its last ones.
func Beginning(text string, share float64, random *rand.Rand) string {
	words := strings.Fields(text)
	dropped := math.Pow(random.Float64(), (1-share)/share) * float64(len(words))
	kept := len(words) - max(1, int(math.Round(dropped)))
	return strings.Join(words[:max(0, kept)], " ")
}

// maskShare is that of PrE-Text; Aug-PE drops 0.5. A smaller share hardly varies the texts, a larger one loses what was
// selected.
const maskShare = 0.3

// variation plans one variation of texts[parent]. It quotes up to quotes other texts, drawn from all.
func (e *Evolution) variation(texts []datasets.Text, parent int, random *rand.Rand) Request {
	r := Request{Kind: e.rules.variation, Parent: texts[parent].Text, Label: texts[parent].Label}
	r.Quotes = drawWithout([]int{parent}, texts, r.Label, e.quotes-1, random)
	if r.Kind == Fill {
		r.MaskShare = maskShare
		r.Beginning = Beginning(r.Parent, r.MaskShare, random)
	}
	return r
}

// draw draws n texts at different places, or as many as there are. If the texts have labels, the label of one that is drawn
// from all decides that of the others.
func draw(texts []datasets.Text, n int, random *rand.Rand) (quotes []string, label string) {
	if texts[0].Label != "" {
		label = texts[random.IntN(len(texts))].Label
	}
	return drawWithout(nil, texts, label, n, random), label
}

// drawWithout draws n texts, or as many as there are, from those of a label, "" for all of them, at different places that are not
// taken.
func drawWithout(taken []int, texts []datasets.Text, label string, n int, random *rand.Rand) []string {
	var places []int
	for i, t := range texts {
		if label == "" || t.Label == label {
			places = append(places, i)
		}
	}
	n = max(0, min(n, len(places)-len(taken)))
	out := make([]string, 0, n)
	for len(out) < n {
		if i := places[random.IntN(len(places))]; !slices.Contains(taken, i) {
			taken = append(taken, i)
			out = append(out, texts[i].Text)
		}
	}
	return out
}
