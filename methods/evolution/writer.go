package evolution

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"popri/datasets"
	"popri/internal/numeric"
)

// Request asks a language model for one text.
type Request struct {
	Kind Kind // Rephrase, Blank, Fill or Expand
	// Parent is the text to vary; "" where Kind is Expand.
	Parent string
	// Quotes are other texts to quote: samples of the same population where Kind is Fill, survivors where it is Expand.
	Quotes []string
	// Style is how Rephrase and Blank are to write: "in plain words".
	Style string
	// Blanked is Parent with a sign in place of the words that Blank drops.
	Blanked string
	// Beginning is what Fill keeps of Parent: its first words, one space between them; "" asks for a whole text.
	Beginning string
	// MaskShare is the mean fraction of Parent's words that Fill drops, and Passes how often a masked model does. Such a
	// model does not read Beginning: it masks tokens of Parent anywhere, by its own draw from the seed.
	MaskShare float64
	Passes    int
	// Label is the label of Parent and Quotes; "" for none.
	Label string
}

// Writer writes texts with a language model. It returns one whole text for each request, which for Fill by a causal
// model begins with Beginning; an empty one means that the model wrote nothing. Equal requests and seeds give equal
// texts.
type Writer interface {
	Write(ctx context.Context, requests []Request, seed uint64) ([]string, error)
}

// beginning returns the first words of text, for a causal model to continue: fill in the blank for a model that reads
// from left to right. The share of words that is dropped is U^((1−share)/share) with U uniform on [0, 1): its mean is
// share and any word may be dropped, the last ones most often. At least one word is.
//
// It differs from the masked models of PrE-Text and Aug-PE: those drop words anywhere, read what stands on both sides
// of a blank and keep the length; here all words after the cut are new, what follows the cut is not read, the length
// may change, and the first words of a text last longer in a population than its last ones.
func beginning(text string, share float64, random *rand.Rand) string {
	words := strings.Fields(text)
	dropped := math.Pow(random.Float64(), (1-share)/share) * float64(len(words))
	kept := len(words) - max(1, int(math.Round(dropped)))
	return strings.Join(words[:max(0, kept)], " ")
}

// styles are what the variations of Aug-PE draw from, one for each.
var styles = []string{"in plain words", "in a formal style", "in a casual style", "in a lively style",
	"in a precise style", "in a thoughtful style", "more briefly", "in more detail", "with other words",
	"in the manner of a report"}

// blank is the sign that stands for a dropped word.
const blank = "_"

// blanks puts a sign in place of a fraction of a text's words, at least one, at random positions.
func blanks(text string, share float64, random *rand.Rand) string {
	words := strings.Fields(text)
	n := min(len(words), max(1, int(math.Round(share*float64(len(words))))))
	for _, i := range random.Perm(len(words))[:n] {
		words[i] = blank
	}
	return strings.Join(words, " ")
}

// variation plans one variation of texts[parent]. By a causal model, Fill quotes up to quotes other texts, drawn from
// all.
func (e *Evolution) variation(texts []datasets.Text, parent int, random *rand.Rand) Request {
	r := Request{Kind: e.rules.variation, Parent: texts[parent].Text, Label: texts[parent].Label}
	switch r.Kind {
	case Fill:
		r.Quotes = drawWithout([]int{parent}, texts, r.Label, e.quotes-1, random)
		r.MaskShare, r.Passes = e.rules.share, e.rules.passes
		r.Beginning = beginning(r.Parent, r.MaskShare, random)
	case Blank:
		r.Blanked = blanks(r.Parent, e.rules.share, random)
		r.Style = styles[random.IntN(len(styles))]
	default:
		r.Style = styles[random.IntN(len(styles))]
	}
	return r
}

// draw draws n texts at different indices, or as many as there are. If the texts have labels, the label of one that is
// drawn from all decides the label of the others.
func draw(texts []datasets.Text, n int, random *rand.Rand) (quotes []string, label string) {
	if texts[0].Label != "" {
		label = texts[random.IntN(len(texts))].Label
	}
	return drawWithout(nil, texts, label, n, random), label
}

// drawWithout draws n texts, or as many as there are, of a label ("" for all), at different indices that are not taken.
func drawWithout(taken []int, texts []datasets.Text, label string, n int, random *rand.Rand) []string {
	indices := numeric.Where(len(texts), func(i int) bool { return label == "" || texts[i].Label == label })
	n = max(0, min(n, len(indices)-len(taken)))
	out := make([]string, 0, n)
	for len(out) < n {
		if i := indices[random.IntN(len(indices))]; !slices.Contains(taken, i) {
			taken = append(taken, i)
			out = append(out, texts[i].Text)
		}
	}
	return out
}
