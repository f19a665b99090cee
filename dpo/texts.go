package dpo

import (
	"errors"
	"fmt"
	"slices"

	"popri/model/tokenizer"
)

// Fields of TRL's other data sets that this package does not read, with advice about them.
const (
	conversational = "lists of messages are not supported: apply the model's chat template first, as TRL's " +
		"maybe_apply_chat_template does"
	implicitPrompt = "pairs whose prompt stands inside the completions are not supported: take it out first, as " +
		"TRL's maybe_extract_prompt does"
)

// texts turns preference texts into tokens as TRL does: the prompt with the tokenizer's prefix, the completions by
// themselves with an end of text.
type texts struct {
	tok     *tokenizer.Tokenizer
	prefix  []int32
	eos     int32
	context int
}

func newTexts(tok *tokenizer.Tokenizer, context int) (texts, error) {
	eos, ok := tok.EOS()
	if !ok {
		return texts{}, errors.New("the tokenizer has no end-of-text token")
	}
	prefix, _ := tok.Template()
	if len(prefix) == 0 {
		prefix = []int32{eos} // the first token of an empty prompt needs a token before it
	}
	return texts{tok, prefix, eos, context}, nil
}

// pair encodes prompt, chosen and rejected.
func (x texts) pair(t [3]string) (Pair, error) {
	p := Pair{PromptText: t[0], ChosenText: t[1], RejectedText: t[2], Chosen: append(x.tok.Encode(t[1]), x.eos),
		Rejected: append(x.tok.Encode(t[2]), x.eos), RejectedIndex: 1}
	if slices.Equal(p.Chosen, p.Rejected) {
		return Pair{}, fmt.Errorf("chosen and rejected are the same (%d bytes, %d tokens): they prefer nothing, "+
			"leave the pair out", len(t[1]), len(p.Chosen))
	}
	room := x.context - max(len(p.Chosen), len(p.Rejected))
	if room < 1 {
		return Pair{}, fmt.Errorf("completions of %d and %d tokens leave no room for a prompt in the context of "+
			"%d", len(p.Chosen), len(p.Rejected), x.context)
	}
	p.Prompt = append(slices.Clone(x.prefix), x.tok.Encode(t[0])...)
	p.Prompt = p.Prompt[max(0, len(p.Prompt)-room):]
	return p, nil
}
