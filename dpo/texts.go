package dpo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"popri/model/chat"
	"popri/model/tokenizer"
)

// ReadOptions say how the files of preference pairs become tokens.
type ReadOptions struct {
	Tokenizer *tokenizer.Tokenizer
	// Folder is the model's; the chat template in it is read if the pairs are conversations.
	Folder string
	// MaxLength is the largest number of tokens of a prompt with a completion.
	MaxLength int
}

// Cut counts what [ReadOptions.MaxLength] changed.
type Cut struct {
	Truncated int // pairs that lost tokens
	Dropped   int // pairs that are left out: no completion, or no difference between both, was left of them
}

// texts turns preference data into tokens as TRL 1.16 does (DPOTrainer._prepare_dataset). The prompt alone and the
// prompt with each completion are tokenized, and the completions begin where these first differ: words that merge
// across the border belong to the completion. A completion that is text gets an end of text, unless it ends with one;
// messages get what the chat template writes.
type texts struct {
	ReadOptions
	Cut
	prefix, suffix []int32
	eos            int32
	end            string         // the text of eos
	chat           *chat.Template // once there was a conversation
	rows           int
}

func newTexts(o ReadOptions) (*texts, error) {
	eos, ok := o.Tokenizer.EOS()
	if !ok {
		return nil, errors.New("the tokenizer has no end-of-text token")
	}
	x := &texts{ReadOptions: o, eos: eos, end: o.Tokenizer.Decode([]int32{eos}, false)}
	x.prefix, x.suffix = o.Tokenizer.Template()
	return x, nil
}

// add appends the pair of a row of preference data, unless it is too long.
func (x *texts) add(pairs []Pair, r row) ([]Pair, error) {
	r, err := r.explicit()
	if err != nil {
		return nil, err
	}
	x.rows++
	read := x.text
	if r.chosen.messages != nil {
		read = x.conversation
	}
	p, err := read(r)
	if err != nil {
		return nil, err
	}
	p.PromptIndex, p.RejectedIndex = x.rows-1, 1
	if x.fit(&p) {
		pairs = append(pairs, p)
	}
	return pairs, nil
}

func (x *texts) encode(text string) []int32 {
	return slices.Concat(x.prefix, x.Tokenizer.Encode(text), x.suffix)
}

// text encodes texts.
func (x *texts) text(r row) (Pair, error) {
	completed := func(completion string) []int32 {
		return x.encode(r.prompt.text + strings.TrimSuffix(completion, x.end) + x.end)
	}
	p := Pair{PromptText: r.prompt.text, ChosenText: r.chosen.text, RejectedText: r.rejected.text}
	return p, x.divide(&p, x.encode(r.prompt.text), completed(r.chosen.text), completed(r.rejected.text))
}

// conversation encodes messages, written by the chat template.
func (x *texts) conversation(r row) (Pair, error) {
	if x.chat == nil {
		var err error
		if x.chat, err = chat.Load(x.Folder); errors.Is(err, chat.ErrNone) {
			return Pair{}, fmt.Errorf("the pairs are conversations, and the model's folder has no chat template "+
				"(chat_template.jinja, or chat_template in tokenizer_config.json): take a model that has one, or "+
				"write prompt, chosen and rejected as texts: %w", err)
		} else if err != nil {
			return Pair{}, err
		}
	}
	var written [3]string
	for i, turns := range [][]chat.Message{nil, r.chosen.messages, r.rejected.messages} {
		var err error
		if written[i], err = x.chat.Render(slices.Concat(r.prompt.messages, turns), turns == nil, r.arguments); err != nil {
			return Pair{}, err
		}
	}
	p := Pair{PromptText: written[0], ChosenText: strings.TrimPrefix(written[1], written[0]),
		RejectedText: strings.TrimPrefix(written[2], written[0])}
	encode := x.Tokenizer.Encode // the template writes what begins and ends a text
	return p, x.divide(&p, encode(written[0]), encode(written[1]), encode(written[2]))
}

// divide sets a pair's tokens from the tokens of the prompt alone and of the prompt with each completion.
func (x *texts) divide(p *Pair, prompt, chosen, rejected []int32) error {
	n := min(same(prompt, chosen), same(prompt, rejected))
	p.Prompt, p.Chosen, p.Rejected = prompt[:n], chosen[n:], rejected[n:]
	if n == 0 {
		p.Prompt = []int32{x.eos} // the first token of a completion needs a token before it
	}
	if slices.Equal(p.Chosen, p.Rejected) {
		return fmt.Errorf("chosen and rejected are the same (%d bytes, %d tokens): they prefer nothing, leave the "+
			"pair out", len(p.ChosenText), len(p.Chosen))
	}
	if len(p.Chosen) == 0 || len(p.Rejected) == 0 {
		return errors.New("the chat template writes a completion without a token of its own")
	}
	return nil
}

// same is the number of first elements that two lists share.
func same[T comparable](a, b []T) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// fit cuts the end of a pair to the length that is allowed, TRL's keep_start, and reports whether anything is left to
// learn from. A pair whose prompt alone is too long is left out.
func (x *texts) fit(p *Pair) bool {
	room := x.MaxLength - len(p.Prompt)
	if max(len(p.Chosen), len(p.Rejected)) <= room {
		return true
	}
	if room > 0 {
		p.Chosen, p.Rejected = p.Chosen[:min(room, len(p.Chosen))], p.Rejected[:min(room, len(p.Rejected))]
	}
	if room <= 0 || slices.Equal(p.Chosen, p.Rejected) {
		x.Dropped++
		return false
	}
	x.Truncated++
	return true
}
