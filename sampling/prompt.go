package sampling

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"popri/configs"
	"popri/datasets"
	"popri/tokenizer"
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
		"(set data.long_texts=cut, or a larger data.max_tokens)",
		t.Used, t.Used+t.Dropped)
}

// Prompter makes prompts of public texts and extracts a sample's text from the model's output.
type Prompter struct {
	// Public counts the prompter's public texts.
	Public PublicTexts

	tok       *tokenizer.Tokenizer
	config    configs.Generate
	context   int // largest number of tokens of a prompt
	longest   int // largest number of tokens of a completion
	maxTokens int // largest number of tokens of a public text, and of a sample if samples are cut
	texts     []string
	ids       [][]int32 // tokens of the texts, if each line is a text
	separator int32
	newline   []int32
	marker    string // the marker that starts the next text under a template
	gap       string // the separator of the texts of a template
}

// NewPrompter prepares the public texts for a model with the given context length, and reserves room for completions of
// the given length. The section data decides which texts are used.
func NewPrompter(tok *tokenizer.Tokenizer, g configs.Generate, d configs.Data, public []datasets.Text,
	context, longest int) (*Prompter, error) {
	separator, ok := tok.EOS()
	if !ok {
		return nil, errors.New("sampling: the tokenizer has no end-of-text token")
	}
	p := &Prompter{tok: tok, config: g, context: context - longest, longest: longest, maxTokens: d.MaxTokens,
		separator: separator, newline: tok.Encode("\n"), gap: "\n\n"}
	if g.TemplateSeparator == "line_end" {
		p.gap = "\n"
	}
	if g.TemplateItem != "" {
		if p.marker = strings.TrimSpace(strings.SplitN(g.TemplateItem, "{i}", 2)[0]); p.marker == "" {
			return nil, fmt.Errorf("sampling: generate.template_item is %q: it must begin with words, which end a "+
				"sample where they occur again", g.TemplateItem)
		}
	}
	p.take(public, d.LongTexts == "cut")
	enough, differ := len(p.texts), ""
	if g.DistinctExamples {
		enough, differ = p.distinct(), " and differ"
	}
	if enough < max(1, g.Examples) {
		return nil, fmt.Errorf("sampling: %w: %d of %d texts of data.public have at most %d tokens "+
			"(data.max_tokens)%s, prompts quote %d (generate.examples)",
			ErrTooFewPrompts, enough, len(public), d.MaxTokens, differ, g.Examples)
	}
	return p, nil
}

// take keeps the texts of at most maxTokens tokens and, if cut is set, the first words of longer ones that fit.
func (p *Prompter) take(public []datasets.Text, cut bool) {
	count := func(text string) int { return len(p.tok.Encode(text)) }
	for _, t := range public {
		text := t.Text
		ids := p.tok.Encode(text)
		if long := len(ids) > p.maxTokens; long && cut {
			text = datasets.First(text, count, p.maxTokens)
			if ids = p.tok.Encode(text); len(ids) <= p.maxTokens {
				p.Public.Cut++
			}
		}
		if len(ids) > p.maxTokens {
			p.Public.Dropped++
			continue
		}
		p.Public.Used++
		p.texts = append(p.texts, text)
		p.ids = append(p.ids, ids)
	}
}

// distinct counts the different texts.
func (p *Prompter) distinct() int {
	seen := make(map[string]bool, len(p.texts))
	for _, t := range p.texts {
		seen[t] = true
	}
	return len(seen)
}

// Texts are the public texts that prompts quote. They must not be changed.
func (p *Prompter) Texts() []string { return p.texts }

// With returns a prompter that quotes other texts in the same way.
func (p *Prompter) With(texts []string) *Prompter {
	q := *p
	q.texts, q.ids = texts, nil
	for _, t := range texts {
		q.ids = append(q.ids, p.tok.Encode(t))
	}
	return &q
}

// Fitting returns the texts that prompts can quote: those of at most data.max_tokens tokens, repetitions kept.
func (p *Prompter) Fitting(texts []string) []string {
	out := make([]string, 0, len(texts))
	for _, t := range texts {
		if len(p.tok.Encode(t)) <= p.maxTokens {
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
			return nil, fmt.Errorf(
				"sampling: prompts of %d texts do not fit %d tokens; use fewer generate.examples or a smaller "+
					"data.max_tokens", p.config.Examples, p.context)
		}
	}
	return out, nil
}

// choose draws the texts of a prompt, with replacement unless they must differ.
func (p *Prompter) choose(random *rand.Rand) []int {
	which := make([]int, 0, p.config.Examples)
	for len(which) < p.config.Examples {
		w := random.IntN(len(p.texts))
		if p.config.DistinctExamples && slices.ContainsFunc(which, func(v int) bool { return p.texts[v] == p.texts[w] }) {
			continue // NewPrompter verified that there are enough different ones
		}
		which = append(which, w)
	}
	return which
}

func (p *Prompter) one(random *rand.Rand) Prompt {
	var texts []string
	var ids [][]int32
	for _, w := range p.choose(random) {
		texts, ids = append(texts, p.texts[w]), append(ids, p.ids[w])
	}
	return p.quoting(texts, ids, "")
}

// Quoting makes a prompt that quotes texts in order and begins the sample with given words, "" for none. If that is too
// long for the model, the first texts are left out, one after the other.
func (p *Prompter) Quoting(texts []string, beginning string) (Prompt, error) {
	ids := make([][]int32, len(texts))
	for i, text := range texts {
		ids[i] = p.tok.Encode(text)
	}
	for skip := range len(texts) + 1 {
		if x := p.quoting(texts[skip:], ids[skip:], beginning); len(x.IDs) <= p.context {
			return x, nil
		}
	}
	return Prompt{}, fmt.Errorf("sampling: a prompt of %d words does not fit %d tokens; use a smaller data.max_tokens",
		len(strings.Fields(beginning)), p.context)
}

// quoting makes a prompt of texts with the given tokens.
func (p *Prompter) quoting(texts []string, tokens [][]int32, beginning string) Prompt {
	begun := p.tok.Encode(beginning)
	var text strings.Builder
	if p.config.TemplateItem == "" {
		ids := []int32{p.separator}
		for i, quoted := range texts {
			ids = append(append(ids, tokens[i]...), p.newline...)
			text.WriteString(quoted + "\n")
		}
		return Prompt{text.String() + beginning, append(ids, begun...), begun}
	}
	item := func(i int) string { return strings.ReplaceAll(p.config.TemplateItem, "{i}", strconv.Itoa(i)) }
	if p.config.TemplateHeader != "" {
		text.WriteString(p.config.TemplateHeader + p.gap)
	}
	for i, quoted := range texts {
		text.WriteString(item(i+1) + "\n" + quoted + p.gap)
	}
	text.WriteString(item(len(texts)+1) + "\n" + beginning)
	prefix, _ := p.tok.Template()
	return Prompt{text.String(), append(append([]int32{}, prefix...), p.tok.Encode(text.String())...), begun}
}

// Cut returns as many of a text's first words as fit data.max_tokens; "" if not even the first word fits.
func (p *Prompter) Cut(text string) string {
	count := func(text string) int { return len(p.tok.Encode(text)) }
	first := datasets.First(text, count, p.maxTokens)
	if count(first) > p.maxTokens {
		return ""
	}
	return first
}

// stopTokens are the tokens that end a sample if each line is a text.
func (p *Prompter) stopTokens() []int32 {
	if p.config.TemplateItem == "" && len(p.newline) == 1 {
		return p.newline
	}
	return nil
}

// Stops are the texts that end a sample, for samplers that look for texts.
func (p *Prompter) Stops() []string {
	if p.marker == "" {
		return nil // stop tokens end it
	}
	return []string{p.marker}
}

// stop reports whether the tokens hold a whole text and the beginning of the next one.
func (p *Prompter) stop() func(ids []int32) bool {
	if p.marker == "" {
		return nil
	}
	return func(ids []int32) bool {
		// The marker is short: only the end of the text can have completed it.
		tail := ids[max(0, len(ids)-2*len(p.marker)):]
		return strings.Contains(p.tok.Decode(tail, true), p.marker)
	}
}

// Completion returns the tokens of a text as a sample that ended by itself.
func (p *Prompter) Completion(text string) []int32 {
	_, completion := p.Read(p.tok.Encode(text), true)
	return completion
}

// Read returns a sample's text, on one line, and its completion for training: the tokens, with an end-of-text token if
// the sample ended by itself, or always if the configuration says so. A prompt and its completion together fit the
// context.
func (p *Prompter) Read(ids []int32, stopped bool) (text string, completion []int32) {
	text = p.tok.Decode(ids, true)
	end := p.newline
	if p.marker == "" {
		completion = append([]int32{}, ids...)
		text = strings.Join(strings.Fields(text), " ")
	} else {
		end = []int32{p.separator}
		if i := strings.Index(text, p.marker); i >= 0 {
			text = text[:i]
		}
		text = strings.Join(strings.Fields(text), " ")
		completion = p.tok.Encode(text)
	}
	if p.config.CutSamples && len(completion) > p.maxTokens {
		text, completion = p.first(completion)
		stopped = false
	}
	if p.config.EndOfText == "always" {
		return text, append(completion[:min(len(completion), max(0, p.longest-len(end)))], end...)
	}
	if stopped {
		completion = append(completion, end...)
	}
	// A text that is encoded again may have more tokens than the model drew.
	return text, completion[:min(len(completion), p.longest)]
}

// first cuts a sample to maxTokens tokens, or to fewer if the last one ends inside a character.
func (p *Prompter) first(ids []int32) (string, []int32) {
	whole := p.tok.Decode(ids, true)
	for n := p.maxTokens; n > 0; n-- {
		if text := p.tok.Decode(ids[:n], true); strings.HasPrefix(whole, text) {
			return strings.Join(strings.Fields(text), " "), slices.Clone(ids[:n])
		}
	}
	return "", nil
}
