package dpo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"popri/model/tokenizer"
)

// Fields of TRL's other data sets that this package does not read, with advice about them.
const (
	conversational = "lists of messages are not supported: apply the model's chat template first, as TRL's " +
		"maybe_apply_chat_template does"
	implicitPrompt = "pairs whose prompt stands inside the completions are not supported: take it out first, as " +
		"TRL's maybe_extract_prompt does"
)

// texts turns preference texts into tokens as TRL 1.16 does (DPOTrainer._prepare_dataset). A completion gets an end of text,
// unless it ends with one. The prompt alone and the prompt with each completion are tokenized, and the completions begin where
// these first differ: words that merge across the border belong to the completion.
type texts struct {
	tok            *tokenizer.Tokenizer
	prefix, suffix []int32
	eos            int32
	end            string // the text of eos
	context        int
}

func newTexts(tok *tokenizer.Tokenizer, context int) (texts, error) {
	eos, ok := tok.EOS()
	if !ok {
		return texts{}, errors.New("the tokenizer has no end-of-text token")
	}
	prefix, suffix := tok.Template()
	return texts{tok, prefix, suffix, eos, tok.Decode([]int32{eos}, false), context}, nil
}

func (x texts) encode(text string) []int32 {
	return slices.Concat(x.prefix, x.tok.Encode(text), x.suffix)
}

// completed encodes a prompt with a completion, and returns how many of its first tokens are those of the prompt alone.
func (x texts) completed(prompt []int32, text, completion string) (ids []int32, same int) {
	ids = x.encode(text + strings.TrimSuffix(completion, x.end) + x.end)
	for same < min(len(ids), len(prompt)) && ids[same] == prompt[same] {
		same++
	}
	return ids, same
}

// pair encodes prompt, chosen and rejected.
func (x texts) pair(t [3]string) (Pair, error) {
	p := Pair{PromptText: t[0], ChosenText: t[1], RejectedText: t[2], Prompt: x.encode(t[0]), RejectedIndex: 1}
	chosen, n := x.completed(p.Prompt, t[0], t[1])
	rejected, m := x.completed(p.Prompt, t[0], t[2])
	n = min(n, m)
	p.Prompt, p.Chosen, p.Rejected = p.Prompt[:n], chosen[n:], rejected[n:]
	if n == 0 {
		p.Prompt = []int32{x.eos} // the first token of a completion needs a token before it
	}
	if slices.Equal(p.Chosen, p.Rejected) {
		return Pair{}, fmt.Errorf("chosen and rejected are the same (%d bytes, %d tokens): they prefer nothing, "+
			"leave the pair out", len(t[1]), len(p.Chosen))
	}
	room := x.context - max(len(p.Chosen), len(p.Rejected))
	if room < 1 {
		return Pair{}, fmt.Errorf("completions of %d and %d tokens leave no room for a prompt in the context of "+
			"%d", len(p.Chosen), len(p.Rejected), x.context)
	}
	p.Prompt = p.Prompt[max(0, len(p.Prompt)-room):]
	return p, nil
}
