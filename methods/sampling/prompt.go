package sampling

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"popri/configs"
	"popri/datasets"
	"popri/internal/numeric"
	"popri/model/tokenizer"
)

// ErrTooFewPrompts marks the error of too few usable public texts for prompts: the user's mistake.
var ErrTooFewPrompts = errors.New("too few public texts for prompts")

// PublicTexts counts what was done with the public texts.
type PublicTexts struct {
	Used    int `json:"used"`    // texts that prompts quote
	Cut     int `json:"cut"`     // texts among them that were cut to data.max_tokens
	Dropped int `json:"dropped"` // longer than data.max_tokens
}

// String states the counts in words.
func (t PublicTexts) String() string {
	return fmt.Sprintf("public texts: %d used, %d of them cut to data.max_tokens, %d longer ones dropped", t.Used,
		t.Cut, t.Dropped)
}

// Warning returns a warning if many texts are not used, else "".
func (t PublicTexts) Warning() string {
	if t.Used >= t.Dropped {
		return ""
	}
	return fmt.Sprintf("warning: prompts quote %d of %d public texts: the others are longer than data.max_tokens "+
		"(set data.long_texts=cut, or a larger data.max_tokens)", t.Used, t.Used+t.Dropped)
}

// Prompter makes prompts of public texts and extracts a sample's text from the model's output.
type Prompter struct {
	// Public counts the prompter's public texts.
	Public PublicTexts
	// Lines lets samples under a template have line breaks. Otherwise each sample is one line.
	Lines bool
	// Turns, if not nil, makes a user's turn of an instruction ([Turns]); nil leaves it as it is.
	Turns func(instruction string) (string, error)

	tok       *tokenizer.Tokenizer
	config    configs.Generate
	context   int  // largest number of tokens of a prompt
	longest   int  // largest number of tokens of a completion
	maxTokens int  // largest number of tokens of a public text, and of a sample if samples are cut
	cut       bool // longer public texts are cut
	texts     []string
	ids       [][]int32        // tokens of the texts, if each line is a text
	labels    []string         // of the texts, where a prompt quotes texts of one label; else nil
	kinds     []string         // of the texts that a model wrote, else ""
	different int              // how many of the texts differ, where a prompt's texts must: under a template; else 0
	groups    map[string][]int // the texts of each label
	separator int32
	newline   []int32
	marker    string  // the marker that starts the next text under a template
	gap       string  // the separator of the texts of a template
	held      []int32 // tokens that are not drawn before generate.min_new_tokens
	heldLines []int32 // the same where samples have line breaks
}

// NewPrompter prepares the public texts for a model with the given context length, and reserves room for completions of
// the given length. The section data decides which texts are used.
func NewPrompter(tok *tokenizer.Tokenizer, g configs.Generate, d configs.Data, public []datasets.Text,
	context, longest int) (*Prompter, error) {
	separator, ok := tok.EOS()
	if !ok {
		return nil, errNoEnd
	}
	p := &Prompter{tok: tok, config: g, context: context - longest, longest: longest, maxTokens: d.MaxTokens,
		cut: d.LongTexts == "cut", separator: separator, newline: tok.Encode("\n"), gap: "\n"}
	if g.TemplateItem != "" {
		if p.marker = strings.TrimSpace(strings.SplitN(g.TemplateItem, "{i}", 2)[0]); p.marker == "" {
			return nil, fmt.Errorf("sampling: generate.template_item is %q: it must begin with words, which end a "+
				"sample where they occur again", g.TemplateItem)
		}
		p.held, p.heldLines = heldTokens(tok, p.marker)
	}
	p.take(public)
	enough, differ := len(p.texts), ""
	if p.marker != "" {
		p.different = p.distinct()
		enough, differ = p.different, " and differ"
	}
	if enough < max(1, g.Examples) {
		return nil, fmt.Errorf("sampling: %w: %d of %d texts of data.public have at most %d tokens (data.max_tokens)%s, "+
			"prompts quote %d (generate.examples)", ErrTooFewPrompts, enough, len(public), d.MaxTokens, differ, g.Examples)
	}
	return p, nil
}

// take keeps the texts that fit.
func (p *Prompter) take(public []datasets.Text) {
	for _, t := range public {
		text, ids, ok := p.fit(t.Text)
		if !ok {
			p.Public.Dropped++
			continue
		}
		if text != t.Text {
			p.Public.Cut++
		}
		p.Public.Used++
		p.add(datasets.Text{Text: text, Label: t.Label, Kind: t.Kind}, ids)
	}
}

// fit returns a text of at most maxTokens tokens: the first words of a longer one, if longer ones are cut.
func (p *Prompter) fit(text string) (fitting string, ids []int32, ok bool) {
	ids = p.tok.Encode(text)
	if len(ids) <= p.maxTokens || !p.cut {
		return text, ids, len(ids) <= p.maxTokens
	}
	text = p.Cut(text)
	return text, p.tok.Encode(text), text != ""
}

// add adds a text that prompts may quote. Its label counts if a prompt quotes texts of one label.
func (p *Prompter) add(t datasets.Text, ids []int32) {
	if p.config.ByLabel {
		if p.groups == nil {
			p.groups = map[string][]int{}
		}
		p.groups[t.Label] = append(p.groups[t.Label], len(p.texts))
		p.labels = append(p.labels, t.Label)
	}
	p.texts, p.ids, p.kinds = append(p.texts, t.Text), append(p.ids, ids), append(p.kinds, t.Kind)
}

// distinct counts the different texts.
func (p *Prompter) distinct() int { return len(numeric.Set(p.texts)) }

// enough reports whether n of the texts at these indices differ.
func (p *Prompter) enough(indices []int, n int) bool {
	seen := map[string]bool{}
	for _, i := range indices {
		if seen[p.texts[i]] = true; len(seen) >= n {
			return true
		}
	}
	return len(seen) >= n
}

// Texts are the public texts that prompts quote. They must not be changed.
func (p *Prompter) Texts() []string { return p.texts }

// Labels are the labels of Texts, with generate.by_label; else nil. They must not be changed.
func (p *Prompter) Labels() []string { return p.labels }

// With returns a prompter that quotes other texts in the same way.
func (p *Prompter) With(texts []datasets.Text) *Prompter {
	q := *p
	q.texts, q.ids, q.labels, q.groups, q.kinds = nil, nil, nil, nil, nil
	for _, t := range texts {
		q.add(t, p.tok.Encode(t.Text))
	}
	if p.marker != "" {
		q.different = q.distinct()
	}
	return &q
}

// Written returns a prompter that quotes the same texts in another way of writing them, those that fit then.
func (p *Prompter) Written(write func(string) string) *Prompter {
	texts := make([]datasets.Text, len(p.texts))
	for i, text := range p.texts {
		texts[i] = datasets.Text{Text: write(text), Kind: p.kinds[i]}
		if p.labels != nil {
			texts[i].Label = p.labels[i]
		}
	}
	return p.With(p.Fitting(texts))
}

// Fitting returns the texts as prompts can quote them: of at most data.max_tokens tokens, repetitions kept. Longer ones
// are cut or left out, as data.long_texts says.
func (p *Prompter) Fitting(texts []datasets.Text) []datasets.Text {
	out := make([]datasets.Text, 0, len(texts))
	for _, t := range texts {
		fitting, _, ok := p.fit(t.Text)
		if t.Text = fitting; ok {
			out = append(out, t)
		}
	}
	return out
}

// Prompt is one prompt: its text for people, its tokens for the model.
type Prompt struct {
	Text string
	IDs  []int32
	// Begun are the tokens at the prompt's end that are the beginning of the sample; none if the model writes the whole
	// sample.
	Begun []int32
	Label string // of the texts that it quotes, with generate.by_label; its samples bear it
	Kind  string // of text that it asks for, with generate.kinds; its samples bear it
}

// Draw makes n prompts.
func (p *Prompter) Draw(random *rand.Rand, n int) ([]Prompt, error) {
	out := make([]Prompt, n)
	for i := range out {
		fits := false
		for range 100 {
			if out[i] = p.one(random); len(out[i].IDs) <= p.context {
				fits = true
				break
			}
		}
		if !fits {
			return nil, fmt.Errorf("sampling: prompts of %d texts do not fit %d tokens; use fewer generate.examples "+
				"or a smaller data.max_tokens", p.config.Examples, p.context)
		}
	}
	return out, nil
}

// choose draws the texts of a prompt, under a template without repetition. Under generate.by_label they have the label
// of the first text, which is drawn from all: so labels come in proportion.
func (p *Prompter) choose(random *rand.Rand) []int {
	which := make([]int, 0, p.config.Examples)
	var group []int // nil: all texts
	for len(which) < p.config.Examples {
		var w int
		if group == nil {
			w = random.IntN(len(p.texts))
		} else {
			w = group[random.IntN(len(group))]
		}
		// Where too few texts differ, of all or of a label, they are quoted twice.
		if len(which) < p.different && slices.ContainsFunc(which,
			func(v int) bool { return p.texts[v] == p.texts[w] }) && (group == nil || p.enough(group, len(which)+1)) {
			continue
		}
		which = append(which, w)
		if p.labels != nil && group == nil {
			group = p.groups[p.labels[w]]
		}
	}
	return which
}

func (p *Prompter) one(random *rand.Rand) Prompt {
	var texts []string
	var ids [][]int32
	label, kind := "", ""
	for i, w := range p.choose(random) {
		texts, ids = append(texts, p.texts[w]), append(ids, p.ids[w])
		if i == 0 {
			kind = p.kinds[w]
		}
		if p.labels != nil {
			label = p.labels[w]
		}
	}
	return p.quoting(subject{label, kind}, texts, ids, "")
}

// Asking makes a prompt that asks for a kind of text and quotes none.
func (p *Prompter) Asking(kind string) Prompt { return p.quoting(subject{kind: kind}, nil, nil, "") }

// subject is what a prompt's header names.
type subject struct{ label, kind string }

// anyKind is what the header names where no kind of text is known.
const anyKind = "text"

// quoting makes a prompt of texts with the given tokens.
func (p *Prompter) quoting(of subject, texts []string, tokens [][]int32, beginning string) Prompt {
	begun := p.tok.Encode(beginning)
	var text strings.Builder
	if p.config.TemplateItem == "" {
		ids := []int32{p.separator}
		for i, quoted := range texts {
			ids = append(append(ids, tokens[i]...), p.newline...)
			text.WriteString(quoted + "\n")
		}
		return Prompt{text.String() + beginning, append(ids, begun...), begun, of.label, of.kind}
	}
	item := func(i int) string { return strings.ReplaceAll(p.config.TemplateItem, "{i}", strconv.Itoa(i)) }
	if p.config.TemplateHeader != "" {
		header := strings.NewReplacer("{label}", of.label, configs.KindPlace, cmp.Or(of.kind, anyKind))
		text.WriteString(header.Replace(p.config.TemplateHeader) + p.gap)
	}
	for i, quoted := range texts {
		text.WriteString(item(i+1) + "\n" + quoted + p.gap)
	}
	text.WriteString(item(len(texts)+1) + "\n" + beginning)
	prefix, _ := p.tok.Template()
	return Prompt{text.String(), append(append([]int32{}, prefix...), p.tok.Encode(text.String())...), begun, of.label,
		of.kind}
}
