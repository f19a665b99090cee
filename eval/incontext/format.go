package incontext

import (
	"cmp"
	"fmt"
	"strings"

	"popri/datasets"
	"popri/model/tokenizer"
)

// The places of [Format.Item] that are filled in.
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
		if of[f.Names[l]] != l {
			return fmt.Errorf("no text has the label %q, which is named %q", l, f.Names[l])
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
