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
	enc, err := newTexts(tok, context)
	if err != nil {
		return nil, err
	}
	reader := bufio.NewReader(r)
	var pairs []Pair
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			p, bad := parsePair(line, enc)
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

// preference are the names of TRL's fields.
var preference = [3]string{"prompt", "chosen", "rejected"}

func parsePair(line []byte, enc texts) (Pair, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return Pair{}, fmt.Errorf("want an object with prompt, chosen and rejected: %w", err)
	}
	var texts [3]string
	for i, name := range preference {
		raw, ok := fields[name]
		if !ok && name == "prompt" {
			return Pair{}, fmt.Errorf("%q is missing (%s)", name, implicitPrompt)
		}
		if !ok {
			return Pair{}, fmt.Errorf("%q is missing", name)
		}
		if len(raw) > 0 && raw[0] == '[' {
			return Pair{}, fmt.Errorf("%q is %.40s, want a text (%s)", name, raw, conversational)
		}
		if len(raw) == 0 || raw[0] != '"' {
			return Pair{}, fmt.Errorf("%q is %.40s, want a text", name, raw)
		}
		if err := json.Unmarshal(raw, &texts[i]); err != nil {
			return Pair{}, fmt.Errorf("%q: %w", name, err)
		}
	}
	return enc.pair(texts)
}
