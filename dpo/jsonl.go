package dpo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"popri/tokenizer"
)

// ReadJSONL reads pairs in the form of TRL's preference data sets: JSON lines with the texts "prompt", "chosen" and
// "rejected"; other fields are passed over. Texts become tokens as TRL makes them: the prompt with the tokenizer's
// prefix, the completions by themselves with an end of text. A prompt that leaves no room in the context loses its
// beginning; a completion that alone fills the context is an error, as is anything that is no such line. Errors name
// file and line.
func ReadJSONL(path string, tok *tokenizer.Tokenizer, context int) ([]Pair, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("dpo: %w", err)
	}
	defer f.Close()
	pairs, err := parseJSONL(f, tok, context)
	if err != nil {
		return nil, fmt.Errorf("dpo: %s: %w", path, err)
	}
	return pairs, nil
}

func parseJSONL(r io.Reader, tok *tokenizer.Tokenizer, context int) ([]Pair, error) {
	eos, ok := tok.EOS()
	if !ok {
		return nil, errors.New("the tokenizer has no end-of-text token")
	}
	prefix, _ := tok.Template()
	if len(prefix) == 0 {
		prefix = []int32{eos} // the first token of an empty prompt needs something before it
	}
	reader := bufio.NewReader(r)
	var pairs []Pair
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			p, bad := parsePair(line, tok, prefix, eos, context)
			if bad != nil {
				return nil, fmt.Errorf("line %d: %w", number, bad)
			}
			p.PromptIndex = len(pairs)
			pairs = append(pairs, p)
		}
		if err != nil {
			break
		}
	}
	if len(pairs) == 0 {
		return nil, errors.New("it holds no pairs")
	}
	return pairs, nil
}

func parsePair(line []byte, tok *tokenizer.Tokenizer, prefix []int32, eos int32, context int) (Pair, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return Pair{}, fmt.Errorf("want an object with prompt, chosen and rejected: %w", err)
	}
	var texts [3]string
	for i, name := range []string{"prompt", "chosen", "rejected"} {
		raw, ok := fields[name]
		if !ok {
			return Pair{}, fmt.Errorf("%q is missing", name)
		}
		if len(raw) == 0 || raw[0] != '"' {
			return Pair{}, fmt.Errorf("%q is %.40s, want a text (lists of messages are not supported)", name, raw)
		}
		if err := json.Unmarshal(raw, &texts[i]); err != nil {
			return Pair{}, fmt.Errorf("%q: %w", name, err)
		}
	}
	p := Pair{PromptText: texts[0], ChosenText: texts[1], RejectedText: texts[2],
		Chosen: append(tok.Encode(texts[1]), eos), Rejected: append(tok.Encode(texts[2]), eos), RejectedIndex: 1}
	room := context - max(len(p.Chosen), len(p.Rejected))
	if room < 1 {
		return Pair{}, fmt.Errorf("completions of %d and %d tokens leave no room for a prompt in the context of %d", len(p.Chosen), len(p.Rejected), context)
	}
	p.Prompt = append(append([]int32{}, prefix...), tok.Encode(texts[0])...)
	p.Prompt = p.Prompt[max(0, len(p.Prompt)-room):]
	return p, nil
}
