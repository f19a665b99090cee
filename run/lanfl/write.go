package lanfl

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"popri/eval/incontext"
	"popri/eval/metrics"
	"popri/internal/numeric"
	"popri/model/lm"
	"popri/model/tokenizer"
)

// The form of an example where the model writes one: the label stands first, so that it decides the text.
const (
	labelled = "Label: "
	texted   = "\nText: "
)

// drawnOf draws k of n indices uniformly without replacement, in rising order.
func drawnOf(n, k int, r *rand.Rand) []int {
	indices := r.Perm(n)[:k]
	slices.Sort(indices)
	return indices
}

// A reason begins with these words, which name the label, and has at most reasonTokens tokens more.
const (
	because      = "The label is %s because"
	reasonTokens = 32
)

// writer lets a language model write examples.
type writer struct {
	model     *lm.Model
	tokenizer *tokenizer.Tokenizer
	format    incontext.Format             // cuts texts and names labels
	tokens    int                          // most of a sample
	reasons   map[incontext.Example]string // of examples that the model gave reasons for; nil to show none
}

// explained gives the model's reason, at temperature 0, to the examples that have none. They are asked for when they
// are first shown.
func (w writer) explained(ctx context.Context, examples []incontext.Example) ([]incontext.Example, error) {
	if w.reasons == nil {
		return examples, nil
	}
	var asked []incontext.Example
	var prompts [][]int32
	for _, e := range examples {
		if _, known := w.reasons[e]; !known && e.Reason == "" {
			prefix, _ := w.tokenizer.Template()
			text := "A text, its label, and why it has this label.\n" + texted + w.format.Text(e.Text) + "\n" +
				labelled +
				w.format.Name(e.Label) + incontext.Reasoned + w.because(e)
			asked, prompts = append(asked, e), append(prompts, append(prefix, w.tokenizer.Encode(text)...))
		}
	}
	over := func(_, ids []int32) bool { return strings.Contains(w.tokenizer.Decode(ids, true), "\n") }
	drawn, err := w.model.Generate(ctx, prompts, 1, lm.SampleOptions{MaxNewTokens: reasonTokens, Stop: over})
	if err != nil {
		return nil, err
	}
	for i, d := range drawn {
		line, _, _ := strings.Cut(w.tokenizer.Decode(d[0].IDs, true), "\n")
		w.reasons[asked[i]] = strings.Join(strings.Fields(w.because(asked[i])+" "+line), " ")
	}
	out := slices.Clone(examples)
	for i, e := range out {
		if e.Reason == "" {
			out[i].Reason = w.reasons[e]
		}
	}
	return out, nil
}

func (w writer) because(e incontext.Example) string {
	return fmt.Sprintf(because, w.format.Name(e.Label))
}

// prompt lists examples and asks for one more, whose label comes first.
func (w writer) prompt(examples []incontext.Example) []int32 {
	var b strings.Builder
	b.WriteString("Examples of texts with their labels, each different from the others.\n\n")
	for _, e := range examples {
		b.WriteString(labelled + w.format.Name(e.Label) + texted + w.format.Text(e.Text))
		if e.Reason != "" {
			b.WriteString(incontext.Reasoned + e.Reason)
		}
		b.WriteString("\n\n")
	}
	b.WriteString(strings.TrimSpace(labelled))
	prefix, _ := w.tokenizer.Template()
	return append(prefix, w.tokenizer.Encode(b.String())...)
}

// write gives an example for each list, at temperature 0. One that is not of the form, or has no known label, is the
// zero Example.
func (w writer) write(ctx context.Context, lists [][]incontext.Example, labels []string,
	told func(done, total int)) ([]incontext.Example, error) {
	prompts, err := numeric.TryMap(lists, func(list []incontext.Example) ([]int32, error) {
		list, err := w.explained(ctx, list)
		return w.prompt(list), err
	})
	if err != nil {
		return nil, err
	}
	over := func(_, ids []int32) bool {
		return strings.Contains(w.tokenizer.Decode(ids, true), "\n\n")
	}
	drawn, err := w.model.Generate(ctx, prompts, 1,
		lm.SampleOptions{MaxNewTokens: w.tokens, Stop: over, Progress: told})
	if err != nil {
		return nil, err
	}
	return numeric.Map(drawn, func(samples []lm.Sample) incontext.Example {
		return w.read(w.tokenizer.Decode(samples[0].IDs, true), labels)
	}), nil
}

func (w writer) read(text string, labels []string) incontext.Example {
	text, _, _ = strings.Cut(text, "\n\n")
	name, body, ok := strings.Cut(text, strings.TrimRight(texted, " "))
	var reason string
	if w.reasons != nil {
		body, reason, _ = strings.Cut(body, incontext.Reasoned)
	}
	i := slices.IndexFunc(labels, func(l string) bool { return w.format.Name(l) == strings.TrimSpace(name) })
	if body = strings.Join(strings.Fields(body), " "); !ok || i < 0 || body == "" {
		return incontext.Example{}
	}
	return incontext.Example{Text: body, Label: labels[i], Reason: strings.Join(strings.Fields(reason), " ")}
}

// tooLike reports whether a sample's BLEU with one of the texts is above the bound.
func tooLike(sample string, texts []incontext.Example, bound float64) bool {
	return slices.ContainsFunc(texts, func(e incontext.Example) bool { return metrics.BLEU(sample, e.Text) > bound })
}
