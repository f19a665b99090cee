package downstream

import (
	"fmt"
	"maps"
	"slices"

	"popri/datasets/clients"
	"popri/model/lm"
)

// Classification trains a small model on texts with labels and tests whether it gives the clients' texts theirs. All
// sources then have labels, and each text is one row: the accuracy is the fraction of texts that get their label.

// ClassEncoder turns labelled texts into rows of a classifier.
type ClassEncoder struct {
	Encoder
	index map[string]int32 // of the labels
}

// newClassEncoder makes an encoder for a classifier with these labels. A tokenizer that drops line ends, as BERT's, has
// rows of form [Document].
func newClassEncoder(e Encoder, labels []string) ClassEncoder {
	if len(e.Tokenizer.Encode("\n")) == 0 {
		e.Rows = Document
	}
	c := ClassEncoder{e, map[string]int32{}}
	for i, l := range labels {
		c.index[l] = int32(i)
	}
	return c
}

// Encode returns a row for each text whose label the classifier has. A long text is cut, and its row's last token
// stays.
func (e ClassEncoder) Encode(texts, labels []string) []lm.Row {
	rows := make([]lm.Row, 0, len(texts))
	whole := e.Encoder
	whole.Length = 1 << 30
	for i, r := range whole.Encode(texts) {
		class, ok := e.index[labels[i]]
		if !ok {
			continue
		}
		ids := r.Tokens
		if n := e.Length; len(ids) > n {
			last := len(e.ending())
			ids = slices.Concat(ids[:max(1, n-last)], ids[len(ids)-last:])
		}
		rows = append(rows, lm.Row{Tokens: ids, Class: class})
	}
	return rows
}

// classifies reports whether the small model gives texts labels.
func (u Suite) classifies() bool { return len(u.Labels) > 0 }

// rows are the training rows of a source.
func (u Suite) rows(e Encoder, src Source) []lm.Row {
	if u.classifies() {
		return newClassEncoder(e, u.Labels).Encode(src.Texts, src.Labels)
	}
	return e.Encode(src.Texts)
}

// set prepares the texts of a split for evaluation. A text whose label is none of the suite's has a further one, which no
// model gives it.
func (u Suite) set(e Encoder, split clients.Split) (Set, error) {
	list := u.Population.Split(split)
	if !u.classifies() {
		return newSet(e, list), nil
	}
	set := Set{n: len(list)}
	encoder := newClassEncoder(e, u.Labels)
	other := map[string]int32{}
	for i, c := range list {
		labels := clients.Labels(list[i : i+1])
		for j, l := range labels {
			class, ok := encoder.index[l]
			if !ok {
				if class, ok = other[l]; !ok {
					class = int32(len(u.Labels) + len(other))
					other[l] = class
				}
				labels[j] = u.Labels[0]
			}
			set.classes = append(set.classes, class)
		}
		set.add(i, encoder.Encode(c.Texts, labels))
	}
	return set, nil
}

// known leaves out the texts of a source whose label is none of the suite's.
func (u Suite) known(src Source) (Source, error) {
	if !u.classifies() || src.Texts == nil {
		return src, nil
	}
	if len(src.Labels) != len(src.Texts) {
		return src, fmt.Errorf("downstream: %s: %d texts with %d labels", src.Name, len(src.Texts), len(src.Labels))
	}
	out := src
	out.Texts, out.Labels = nil, nil
	for i, l := range src.Labels {
		if slices.Contains(u.Labels, l) {
			out.Texts, out.Labels = append(out.Texts, src.Texts[i]), append(out.Labels, l)
		}
	}
	if len(out.Texts) == 0 {
		return out, fmt.Errorf("downstream: %s: none of its %d texts has one of the %d labels", src.Name,
			len(src.Texts), len(u.Labels))
	}
	return out, nil
}

// Named is a text's label and the one that the model gave it, as indices of the suite's labels.
type Named [2]int32

// MacroF1 is the mean of the labels' F1, 2·tp/(2·tp + fp + fn), over all labels that a text has or was given, as
// scikit-learn's f1_score(average="macro") with zero_division=0.
func MacroF1(scores []Score) float64 {
	type counts struct{ right, given, have int }
	of := map[int32]*counts{}
	at := func(l int32) *counts {
		if of[l] == nil {
			of[l] = &counts{}
		}
		return of[l]
	}
	for _, c := range scores {
		for _, x := range c.Named {
			at(x[0]).have++
			at(x[1]).given++
			if x[0] == x[1] {
				at(x[0]).right++
			}
		}
	}
	sum := 0.0
	for _, l := range slices.Sorted(maps.Keys(of)) { // in their order, because the sum of floats depends on it
		c := of[l]
		sum += 2 * float64(c.right) / float64(c.given+c.have)
	}
	return sum / float64(len(of))
}
