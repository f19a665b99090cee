package sampling

import (
	"slices"
	"strings"
	"unicode"

	"popri/internal/numeric"
	"popri/model/tokenizer"
)

// heldTokens are those with which a template's next text would begin before generate.min_new_tokens: tokens with a line
// break, and signs that the marker begins with. A marker that begins with a letter or a digit may be a word of the
// text. Where samples have line breaks, a marker that begins with a sign is held by its sign alone.
func heldTokens(tok *tokenizer.Tokenizer, marker string) (held, lines []int32) {
	for id := range int32(tok.VocabSize()) {
		text := tok.Decode([]int32{id}, false)
		word := strings.TrimSpace(text)
		begins := word != "" && strings.HasPrefix(marker, word) && strings.IndexFunc(word, wordRune) < 0
		if begins {
			lines = append(lines, id)
		}
		if strings.Contains(text, "\n") || begins {
			held = append(held, id)
		}
	}
	if len(lines) == 0 {
		lines = held
	}
	return held, lines
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

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

// Held are the tokens that are not drawn before generate.min_new_tokens.
func (p *Prompter) Held() []int32 {
	if p.Lines {
		return p.heldLines
	}
	return p.held
}

// stop reports whether the tokens hold a whole text and the beginning of the next one.
func (p *Prompter) stop() func(prompt, ids []int32) bool {
	if p.marker == "" {
		return nil
	}
	return func(_, ids []int32) bool {
		// The marker is short: only the end of the text can have completed it.
		tail := ids[max(0, len(ids)-2*len(p.marker)):]
		return strings.Contains(p.tok.Decode(tail, true), p.marker)
	}
}

// StopTokens returns the tokens that end a sample of a model whose texts end with some of its own.
func (p *Prompter) StopTokens(own []int32) []int32 { return slices.Concat(own, p.stopTokens()) }

// Ended reports whether the text of a sample that is drawn token by token is whole: the tokens hold the beginning of
// the next one.
func (p *Prompter) Ended(ids []int32) bool {
	ended := p.stop()
	return ended != nil && ended(nil, ids)
}

// Completion returns the tokens of a text as a sample that ended by itself.
func (p *Prompter) Completion(text string) []int32 {
	_, completion := p.Read(p.tok.Encode(text), true)
	return completion
}

// spaced is a sample's text without spaces around it, and on one line unless samples have line breaks.
func (p *Prompter) spaced(text string) string {
	if !p.Lines || p.marker == "" {
		return oneLine(text)
	}
	trim := func(line string) string { return strings.TrimRightFunc(line, unicode.IsSpace) }
	lines := numeric.Map(strings.Split(text, "\n"), trim)
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Read returns a sample's text, on one line unless Lines is set, and its completion for training: the tokens, with an
// end-of-text token if the sample ended by itself, or always if the configuration says so. A prompt and its completion
// together fit the context.
func (p *Prompter) Read(ids []int32, stopped bool) (text string, completion []int32) {
	text = p.tok.Decode(ids, true)
	end := p.newline
	if p.marker == "" {
		completion = append([]int32{}, ids...)
		text = oneLine(text)
	} else {
		end = []int32{p.separator}
		if i := strings.Index(text, p.marker); i >= 0 {
			text = text[:i]
		}
		text = p.spaced(text)
		completion = p.tok.Encode(text)
	}
	if p.config.CutSamples && len(completion) > p.maxTokens {
		text, completion = p.first(completion)
		stopped = false
	}
	if p.config.CutSamples {
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
			return p.spaced(text), slices.Clone(ids[:n])
		}
	}
	return "", nil
}
