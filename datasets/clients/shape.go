package clients

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"popri/datasets"
	"popri/internal/fault"
)

// Shape says which texts and clients an import keeps, and in which form. The zero value keeps all as they are.
type Shape struct {
	// From and To are the first and the last date that is kept; a year or a month stands for all of its days. Texts
	// without a date are left out if either is set.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`

	// ValidationFrom and TestFrom split by date: texts from ValidationFrom on are for validation, from TestFrom on for
	// test, the others for training. A client is in the split of its newest text, and its texts of another split are
	// left out.
	ValidationFrom string `json:"validation_from,omitempty"`
	TestFrom       string `json:"test_from,omitempty"`

	Filter // applied to whole texts

	SpanWords  int              `json:"span_words,omitempty"`  // cuts texts into spans of at most this number of words; 0: whole texts
	SpanTokens int              `json:"span_tokens,omitempty"` // or of this number of tokens, as Tokens counts them
	Tokenizer  string           `json:"tokenizer,omitempty"`   // where Tokens comes from
	Tokens     func(string) int `json:"-"`
	MinWords   int              `json:"min_words,omitempty"` // leaves out shorter texts and spans

	MinTexts int `json:"min_texts,omitempty"` // leaves out clients with fewer texts
	MaxTexts int `json:"max_texts,omitempty"` // keeps a client's first texts; 0: all

	// Clients is the number of train clients to keep, those with the smallest hashes of seed and ID: fewer are a subset
	// of more. Validation and test stay whole, so that figures can be compared, unless ValidationClients and
	// TestClients say how many of them are kept in the same way.
	Clients           int `json:"clients,omitempty"`
	ValidationClients int `json:"validation_clients,omitempty"`
	TestClients       int `json:"test_clients,omitempty"`
}

var datePattern = regexp.MustCompile(`^\d{4}(-\d{2}(-\d{2})?)?$`)

func (s *Shape) validate() error {
	for _, d := range []struct{ name, value string }{{"from", s.From}, {"to", s.To},
		{"validation from", s.ValidationFrom},
		{"test from", s.TestFrom}} {
		if d.value != "" && !(datePattern.MatchString(d.value) && validDate(d.value+"-01-01"[:10-len(d.value)])) {
			return fault.Userf("the date %s is %q, want YYYY, YYYY-MM or YYYY-MM-DD", d.name, d.value)
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"words of a span", s.SpanWords}, {"tokens of a span", s.SpanTokens}, {"words", s.MinWords}, {"least texts",
		s.MinTexts},
		{"most texts", s.MaxTexts}, {"clients", s.Clients}, {"validation clients", s.ValidationClients},
		{"test clients", s.TestClients}} {
		if n.value < 0 {
			return fault.Userf("the number of %s is %d, want 0 or more", n.name, n.value)
		}
	}
	if err := s.Filter.validate(); err != nil {
		return err
	}
	switch {
	case s.SpanWords > 0 && s.SpanTokens > 0:
		return fault.Userf("spans are of words or of tokens, not both")
	case s.SpanTokens > 0 && s.Tokens == nil:
		return fault.Userf("spans of tokens need a tokenizer")
	case s.MaxTexts > 0 && s.MinTexts > s.MaxTexts:
		return fault.Userf("a client has at least %d and at most %d texts", s.MinTexts, s.MaxTexts)
	case s.ValidationFrom != "" && s.TestFrom != "" && s.ValidationFrom >= s.TestFrom:
		return fault.Userf("validation begins on %s, which is not before test on %s", s.ValidationFrom, s.TestFrom)
	case s.From != "" && s.To != "" && s.From[:min(len(s.From), len(s.To))] > s.To[:min(len(s.From), len(s.To))]:
		return fault.Userf("the dates end at %s, before they begin at %s", s.To, s.From)
	}
	return nil
}

// dated reports whether dates decide the splits.
func (s *Shape) dated() bool { return s.ValidationFrom != "" || s.TestFrom != "" }

// window returns why a date is outside, or "".
func (s *Shape) window(day string) string {
	switch {
	case s.From == "" && s.To == "" && !s.dated():
		return ""
	case day == "":
		return noDate
	case day < s.From:
		return tooEarly
	case s.To != "" && day[:len(s.To)] > s.To:
		return tooLate
	}
	return ""
}

// byDate returns the split of a text's date.
func (s *Shape) byDate(day string) Split {
	switch {
	case s.TestFrom != "" && day >= s.TestFrom:
		return Test
	case s.ValidationFrom != "" && day >= s.ValidationFrom:
		return Validation
	}
	return Train
}

// split decides a client's split and leaves out what belongs to another one. It returns false if the texts contradict
// each other, which it notes.
func (i *importer) split(c *imported) (Split, bool) {
	if i.o.dated() {
		newest := slices.MaxFunc(c.texts, func(a, b importedText) int { return cmp.Compare(a.date, b.date) })
		split, n := i.o.byDate(newest.date), len(c.texts)
		c.texts = slices.DeleteFunc(c.texts, func(t importedText) bool { return i.o.byDate(t.date) != split })
		i.m.leaveOut(otherSplit, n-len(c.texts), 0)
		return split, true
	}
	first := c.texts[0]
	if first.split == "" {
		return i.o.share(c.id), true
	}
	for _, t := range c.texts[1:] {
		if t.split != first.split {
			other := ""
			if t.file != first.file {
				other = " of " + i.files[first.file].Path
			}
			i.problems.add(i.files[t.file].Path, t.position, "", "split is %q, but %s%s puts the client in %q", t.split,
				first.position, other, first.split)
			return "", false
		}
	}
	return first.split, true
}

// filter takes parts out of a client's texts, and leaves out texts of which nothing is left.
func (i *importer) filter(c *imported) {
	if i.o.NonLetters == 0 && len(i.o.Drop) == 0 {
		return
	}
	if i.m.Filtered == nil {
		i.m.Filtered = new(Filtered)
	}
	for k := range c.texts {
		c.texts[k].text = i.o.apply(c.texts[k].text, i.m.Filtered)
	}
	i.drop(c, nothingLeft, func(text string) bool { return strings.TrimSpace(text) == "" })
}

// drop leaves texts of a client out for a reason.
func (i *importer) drop(c *imported, reason string, which func(text string) bool) {
	n, emptied := len(c.texts), 0
	if c.texts = slices.DeleteFunc(c.texts, func(t importedText) bool { return which(t.text) }); n > 0 && len(c.texts) == 0 {
		emptied = 1
	}
	i.m.leaveOut(reason, n-len(c.texts), emptied)
}

// cut cuts a client's texts into spans and leaves out the short ones.
func (i *importer) cut(c *imported) error {
	count, most := datasets.CountWords, i.o.SpanWords
	if i.o.SpanTokens > 0 {
		count, most = i.o.Tokens, i.o.SpanTokens
	}
	if most > 0 {
		var spans []importedText
		for _, t := range c.texts {
			for _, s := range datasets.Chunk(t.text, count, most) {
				span := t
				span.text = s
				spans = append(spans, span)
			}
			if err := i.bound(c, len(spans), 0); err != nil {
				return err
			}
		}
		c.texts = spans
	}
	if i.o.MinWords > 0 {
		i.drop(c, fewWords, func(text string) bool { return datasets.CountWords(text) < i.o.MinWords })
	}
	return nil
}

// limit keeps a client's first texts, and reports whether it has enough of them.
func (i *importer) limit(c *imported) bool {
	if n := len(c.texts); n < i.o.MinTexts {
		if n > 0 {
			i.m.leaveOut(fewTexts, n, 1)
		}
		return false
	}
	if most := i.o.MaxTexts; most > 0 && len(c.texts) > most {
		i.m.leaveOut(manyTexts, len(c.texts)-most, 0)
		c.texts = c.texts[:most]
	}
	return len(c.texts) > 0
}

// choose returns which clients of a split are kept: n of them, or all where n is 0.
func (i *importer) choose(all *spool, split Split, n int) (func(id string) bool, error) {
	if n == 0 {
		return func(string) bool { return true }, nil
	}
	if all.clients < int64(n) {
		return nil, fault.Userf("%d %s clients are asked for, there are %d", n, split, all.clients)
	}
	s := subset{n: n, seed: i.o.Seed}
	err := all.each(func(c *imported) error {
		s.add(c.id)
		return nil
	})
	chosen := s.chosen()
	return func(id string) bool { return chosen[id] }, err
}
