package sampling

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"popri/configs"
	"popri/datasets"
	"popri/internal/numeric"
	"popri/model/tokenizer"
)

// Quoting makes a prompt that quotes texts in order and begins the sample with given words, "" for none. label is the
// texts' label, "" for none. If the prompt is too long for the model, the first texts are left out, one after the
// other.
func (p *Prompter) Quoting(label string, texts []string, beginning string) (Prompt, error) {
	ids := numeric.Map(texts, p.tok.Encode)
	for skip := range len(texts) + 1 {
		if x := p.quoting(subject{label: label}, texts[skip:], ids[skip:], beginning); len(x.IDs) <= p.context {
			return x, nil
		}
	}
	return Prompt{}, fmt.Errorf("sampling: a prompt of %d words does not fit %d tokens; use a smaller data.max_tokens",
		len(strings.Fields(beginning)), p.context)
}

// ErrTooLong marks the error of an instruction that leaves no room for an answer.
var ErrTooLong = errors.New("the instruction is too long")

// quotationMark encloses the texts of instructions, and ends the answer.
const quotationMark = `"`

// Marked is a text in quotation marks, as instructions have it, on one line and without marks inside.
func Marked(text string) string {
	return quotationMark + strings.ReplaceAll(oneLine(text), quotationMark, "'") + quotationMark
}

// Answering returns a prompter for instructions: a sample ends at a quotation mark or a line's end.
func (p *Prompter) Answering() *Prompter {
	q := *p
	q.Lines, q.marker, q.config.TemplateItem = false, quotationMark, ""
	q.held, q.heldLines = heldTokens(p.tok, quotationMark)
	return &q
}

// NewAnswering returns a prompter for instructions alone, without public texts, for a model with the given context
// length. It reserves room for completions of the given length.
func NewAnswering(tok *tokenizer.Tokenizer, g configs.Generate, d configs.Data, context, longest int) (*Prompter, error) {
	p, err := NewContinuing(tok, g, d, context, longest)
	if err != nil {
		return nil, err
	}
	return p.Answering(), nil
}

// NewContinuing is [NewAnswering] for a model that writes what follows a prompt: a sample ends at a line's end.
func NewContinuing(tok *tokenizer.Tokenizer, g configs.Generate, d configs.Data, context, longest int) (*Prompter, error) {
	separator, ok := tok.EOS()
	if !ok {
		return nil, errNoEnd
	}
	g.TemplateItem = ""
	return &Prompter{tok: tok, config: g, context: context - longest, longest: longest, maxTokens: d.MaxTokens,
		separator: separator, newline: tok.Encode("\n"), gap: "\n"}, nil
}

var errNoEnd = errors.New("sampling: the tokenizer has no end-of-text token")

// Instruct makes a prompt of an instruction, which may quote texts ([Marked]), and the mark that opens the answer. One
// that is too long for the model is an [ErrTooLong].
func (p *Prompter) Instruct(label, instruction string) (Prompt, error) {
	text := instruction + "\n"
	if p.Turns != nil {
		var err error
		if text, err = p.Turns(instruction); err != nil {
			return Prompt{}, err
		}
	}
	text += quotationMark
	prefix, _ := p.tok.Template()
	x := Prompt{Text: text, IDs: append(slices.Clone(prefix), p.tok.Encode(text)...), Label: label}
	if len(x.IDs) > p.context {
		return x, fmt.Errorf("sampling: %w: it has %d tokens, and %d are left; use a smaller data.max_tokens",
			ErrTooLong, len(x.IDs), p.context)
	}
	return x, nil
}

// Repeating makes a prompt that is a text: for samplers that answer with another form of it.
func (p *Prompter) Repeating(label, text string) Prompt {
	return Prompt{Text: text, IDs: p.tok.Encode(text), Label: label}
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
