package trainer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"popri/configs"
	"popri/datasets"
	"popri/tokenizer"
)

// Prompter makes prompts of public texts and reads a sample's text out of what the model wrote.
type Prompter struct {
	tok       *tokenizer.Tokenizer
	config    configs.Generate
	context   int // most tokens of a prompt
	longest   int // most tokens of a completion
	texts     []string
	ids       [][]int32 // of texts, where a line is a text
	separator int32
	newline   []int32
	marker    string // what starts the next text under a template
}

// NewPrompter prepares the public texts of at most maxTokens tokens for a model with the given context length, in which
// room is left for completions of the given length.
func NewPrompter(tok *tokenizer.Tokenizer, g configs.Generate, public []datasets.Text, maxTokens, context, longest int) (*Prompter, error) {
	separator, ok := tok.EOS()
	if !ok {
		return nil, errors.New("trainer: the tokenizer has no end-of-text token")
	}
	p := &Prompter{tok: tok, config: g, context: context - longest, longest: longest, separator: separator, newline: tok.Encode("\n")}
	if g.TemplateItem != "" {
		if p.marker = strings.TrimSpace(strings.SplitN(g.TemplateItem, "{i}", 2)[0]); p.marker == "" {
			return nil, fmt.Errorf("trainer: generate.template_item is %q: it must begin with words, which end a sample where they occur again", g.TemplateItem)
		}
	}
	for _, t := range public {
		ids := tok.Encode(t.Text)
		if len(ids) > maxTokens {
			continue // a text cut in the middle would teach the model to end there
		}
		p.texts = append(p.texts, t.Text)
		p.ids = append(p.ids, ids)
	}
	if len(p.texts) < max(1, g.Examples) {
		return nil, fmt.Errorf("trainer: %d public texts of at most %d tokens are too few for prompts of %d", len(p.texts), maxTokens, g.Examples)
	}
	return p, nil
}

// With returns a prompter that quotes other texts in the same way.
func (p *Prompter) With(texts []string) *Prompter {
	q := *p
	q.texts, q.ids = texts, nil
	for _, t := range texts {
		q.ids = append(q.ids, p.tok.Encode(t))
	}
	return &q
}

// Prompt is one prompt: its text for people, its tokens for the model.
type Prompt struct {
	Text string
	IDs  []int32
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
			return nil, fmt.Errorf("trainer: prompts of %d texts do not fit %d tokens; use fewer generate.examples or a smaller data.max_tokens", p.config.Examples, p.context)
		}
	}
	return out, nil
}

func (p *Prompter) one(random *rand.Rand) Prompt {
	which := make([]int, 0, p.config.Examples)
	for len(which) < p.config.Examples {
		which = append(which, random.IntN(len(p.texts)))
	}
	var text strings.Builder
	if p.config.TemplateItem == "" {
		ids := []int32{p.separator}
		for _, w := range which {
			ids = append(append(ids, p.ids[w]...), p.newline...)
			text.WriteString(p.texts[w] + "\n")
		}
		return Prompt{text.String(), ids}
	}
	item := func(i int) string { return strings.ReplaceAll(p.config.TemplateItem, "{i}", strconv.Itoa(i)) }
	if p.config.TemplateHeader != "" {
		text.WriteString(p.config.TemplateHeader + "\n\n")
	}
	for i, w := range which {
		text.WriteString(item(i+1) + "\n" + p.texts[w] + "\n\n")
	}
	text.WriteString(item(len(which)+1) + "\n")
	prefix, _ := p.tok.Template()
	return Prompt{text.String(), append(append([]int32{}, prefix...), p.tok.Encode(text.String())...)}
}

// stopTokens end a sample where a line is a text.
func (p *Prompter) stopTokens() []int32 {
	if p.config.TemplateItem == "" && len(p.newline) == 1 {
		return p.newline
	}
	return nil
}

// stop reports whether the tokens hold a whole text and the beginning of what follows it.
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

// Read returns a sample's text, on one line, and its completion for training: the tokens with an end where the sample
// ended by itself. A prompt and its completion together fit the context.
func (p *Prompter) Read(ids []int32, stopped bool) (text string, completion []int32) {
	text = p.tok.Decode(ids, true)
	if p.marker == "" {
		completion = append([]int32{}, ids...)
		if stopped {
			completion = append(completion, p.newline...)
		}
		return strings.Join(strings.Fields(text), " "), p.cut(completion)
	}
	if i := strings.Index(text, p.marker); i >= 0 {
		text = text[:i]
	}
	text = strings.Join(strings.Fields(text), " ")
	completion = p.tok.Encode(text)
	if stopped {
		completion = append(completion, p.separator)
	}
	return text, p.cut(completion)
}

// cut bounds a completion: a text that is encoded anew may take more tokens than the model drew.
func (p *Prompter) cut(completion []int32) []int32 {
	return completion[:min(len(completion), p.longest)]
}
