package dpo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"popri/internal/bom"
	"popri/internal/jsonobject"
	"popri/internal/quote"
	"popri/model/tokenizer"
)

// ReadJSONL reads pairs in the form of TRL's preference data sets: JSON lines with the texts "prompt", "chosen" and
// "rejected"; other fields are ignored. Texts become tokens as in TRL 1.16: prompt and completion together, with an
// end of text. A completion begins where the tokens differ from those of the prompt alone. A prompt that leaves no room in the
// context loses its beginning. A prompt may be empty, and so may one of the completions, which then is the end of text alone.
//
// Errors name file and line: a completion that alone fills the context, completions that are equal and so express no
// preference, text that is not UTF-8, a duplicate field, and any line of another form.
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
	if mark, _ := reader.Peek(3); len(bom.Trim(mark)) < len(mark) {
		_, _ = reader.Discard(len(mark)) // the peeked byte is there
	}
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

// preference has the names of TRL's fields.
var preference = [3]string{"prompt", "chosen", "rejected"}

func parsePair(line []byte, enc texts) (Pair, error) {
	fields, err := jsonobject.Fields(line)
	if err != nil {
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
			return Pair{}, fmt.Errorf("%q is %s, want a text (%s)", name, quote.Raw(raw), conversational)
		}
		if len(raw) == 0 || raw[0] != '"' {
			return Pair{}, fmt.Errorf("%q is %s, want a text", name, quote.Raw(raw))
		}
		if err := json.Unmarshal(raw, &texts[i]); err != nil {
			return Pair{}, fmt.Errorf("%q: %w", name, err)
		}
	}
	return enc.pair(texts)
}
