package incontext

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"popri/datasets"
	"popri/model/tokenizer"
)

// The parts of [Format.Item] that are filled in.
const (
	textPlace  = "{text}"
	labelPlace = "{label}"
)

// DefaultItem is the form of a demonstration where the user names no other.
const DefaultItem = "Text: {text}\nLabel: {label}"

// Format says how texts and labels stand in a prompt.
type Format struct {
	Header string // stands before all; may be ""
	Item   string // a text and its label: holds {text} once, and ends in {label}; items are separated by an empty line
	// Names are the words that stand for labels, such as "positive" for "pos". A label without one stands for itself,
	// its underscores read as spaces.
	Names     map[string]string
	Length    int // tokens to which texts are cut, at the ends of words
	Tokenizer *tokenizer.Tokenizer
}

// Check returns an error if the item's form cannot be filled in, or if two of the labels have one name.
func (f Format) Check(labels []string) error {
	if strings.Count(f.Item, textPlace) != 1 || strings.Count(f.Item, labelPlace) != 1 ||
		!strings.HasSuffix(f.Item, labelPlace) {
		return fmt.Errorf("the item %q must hold %s once and end in %s", f.Item, textPlace, labelPlace)
	}
	of := map[string]string{}
	for _, l := range labels {
		name := f.Name(l)
		if name == "" {
			return fmt.Errorf("the label %q has no name", l)
		}
		if other, ok := of[name]; ok {
			return fmt.Errorf("the labels %q and %q have the same name, %q", other, l, name)
		}
		of[name] = l
	}
	for l := range f.Names {
		if of[f.Name(l)] != l {
			return fmt.Errorf("no text has the label %q, which is named %q", l, f.Name(l))
		}
	}
	return nil
}

// Name is the word that stands for a label.
func (f Format) Name(label string) string {
	return strings.TrimSpace(cmp.Or(f.Names[label], strings.ReplaceAll(label, "_", " ")))
}

// Text cuts a text and makes it one line, so that items stay apart.
func (f Format) Text(t string) string {
	t = strings.Join(strings.Fields(t), " ")
	return datasets.First(t, func(s string) int { return len(f.Tokenizer.Encode(s)) }, f.Length)
}

// Reasoned is what stands before the reason of a demonstration that has one. It follows the label, so that a label is
// still asked for right behind its text.
const Reasoned = "\nReason: "

// shown is a demonstration.
func (f Format) shown(d Example) string {
	item := strings.NewReplacer(textPlace, f.Text(d.Text), labelPlace, f.Name(d.Label)).Replace(f.Item)
	if d.Reason != "" {
		item += Reasoned + d.Reason
	}
	return item
}

// beginning is what stands before the text that is asked about.
func (f Format) beginning(demonstrations []Example) []int32 {
	var b strings.Builder
	if f.Header != "" {
		b.WriteString(f.Header + "\n\n")
	}
	for _, d := range demonstrations {
		b.WriteString(f.shown(d) + "\n\n")
	}
	prefix, _ := f.Tokenizer.Template()
	ids := append(prefix, f.Tokenizer.Encode(b.String())...)
	if end, ok := f.Tokenizer.EOS(); ok && len(ids) == 0 { // a model needs a token to begin with
		ids = []int32{end}
	}
	return ids
}

// question is the item of a text, up to its label.
func (f Format) question(text string) []int32 {
	open := strings.TrimRight(strings.TrimSuffix(f.Item, labelPlace), " ")
	return f.Tokenizer.Encode(strings.Replace(open, textPlace, f.Text(text), 1))
}

// answer is a label behind its question. A space before {label} belongs to the label's first token.
func (f Format) answer(label string) []int32 {
	space := ""
	if strings.HasSuffix(f.Item, " "+labelPlace) {
		space = " "
	}
	return f.Tokenizer.Encode(space + f.Name(label))
}

// Example is a text with its label, and why it has that label, or "".
type Example struct{ Text, Label, Reason string }

// Draw draws k demonstrations without replacement, evenly over the labels that examples have: labels that get one more
// than others, the demonstrations of each label and their order are random. A label with too few examples gives all of
// them, and others fill what is left. Fewer than k are returned only where there are fewer examples.
func Draw(examples []Example, k int, r *rand.Rand) []Example {
	of := map[string][]Example{}
	var labels []string
	for _, e := range examples {
		if of[e.Label] == nil {
			labels = append(labels, e.Label)
		}
		of[e.Label] = append(of[e.Label], e)
	}
	slices.Sort(labels) // the draw does not depend on the order of examples' labels
	for _, l := range labels {
		r.Shuffle(len(of[l]), func(i, j int) { of[l][i], of[l][j] = of[l][j], of[l][i] })
	}
	r.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
	var drawn []Example
	for turn := 0; len(drawn) < min(k, len(examples)); turn++ {
		for _, l := range labels {
			if turn < len(of[l]) && len(drawn) < k {
				drawn = append(drawn, of[l][turn])
			}
		}
	}
	r.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn
}
