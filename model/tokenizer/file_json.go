package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/quote"
)

// The parts of tokenizer.json. An object with a "type" is decoded in two steps: first the type, then the settings of
// that type; an unknown setting is an error.
type parts[Part, Model any] struct {
	Version       string          `json:"version"`
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []AddedToken    `json:"added_tokens"`
	Normalizer    Part            `json:"normalizer"`
	PreTokenizer  Part            `json:"pre_tokenizer"`
	PostProcessor Part            `json:"post_processor"`
	Decoder       Part            `json:"decoder"`
	Model         Model           `json:"model"`
}

type tokenizerFile = parts[json.RawMessage, json.RawMessage]

type typeOnly struct {
	Type string `json:"type"`
}

type byteLevelSettings struct {
	Type           string `json:"type"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	TrimOffsets    bool   `json:"trim_offsets"`
	UseRegex       *bool  `json:"use_regex"` // missing in older files, which means true
}

// splits reports whether a pre-tokenizer cuts as GPT-2 does; trim_offsets has an effect in a post-processor only.
func (s byteLevelSettings) splits() bool { return s.UseRegex == nil || *s.UseRegex }

type bpe[Vocab, Merges any] struct {
	Type                    string   `json:"type"`
	Dropout                 *float64 `json:"dropout"`
	UnkToken                *string  `json:"unk_token"`
	ContinuingSubwordPrefix *string  `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string  `json:"end_of_word_suffix"`
	FuseUnk                 bool     `json:"fuse_unk"`
	ByteFallback            bool     `json:"byte_fallback"`
	IgnoreMerges            bool     `json:"ignore_merges"`
	Vocab                   Vocab    `json:"vocab"`
	Merges                  Merges   `json:"merges"`
}

type bpeSettings = bpe[vocabJSON, mergesJSON]

// vocabJSON is an object of tokens and ids. A duplicate token is an error; decoding into a map would silently keep the
// last one.
type vocabJSON map[string]int32

func (v *vocabJSON) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return quote.Errorf("model.vocab must be an object of tokens and ids, is %s", quote.Raw(string(b[:1])))
	}
	*v = vocabJSON{}
	return exactjson.Members(b, func(token string, value json.RawMessage) error {
		id, err := strconv.Atoi(string(value))
		if err != nil || id < 0 || id >= maxID {
			return quote.Errorf("model.vocab: the id of %q is %s, allowed are 0 to %d", token, quote.Raw(string(value)), maxID-1)
		}
		if _, twice := (*v)[token]; twice {
			return quote.Errorf("model.vocab: %q stands twice", token)
		}
		(*v)[token] = int32(id)
		return nil
	})
}

// mergesJSON is a list of pairs, each ["a", "b"] or "a b".
type mergesJSON [][2]string

func (m *mergesJSON) UnmarshalJSON(b []byte) error {
	var lines []json.RawMessage
	if err := json.Unmarshal(b, &lines); err != nil {
		return fmt.Errorf("model.merges must be a list: %w", quote.JSON(err))
	}
	for i, raw := range lines {
		var pair []string
		if raw[0] == '"' {
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				return err
			}
			if i == 0 && strings.HasPrefix(text, "#version") {
				continue
			}
			pair = strings.Split(text, " ")
		} else if err := json.Unmarshal(raw, &pair); err != nil {
			return fmt.Errorf("model.merges line %d: %w", i+1, quote.JSON(err))
		}
		if len(pair) != 2 || pair[0] == "" || pair[1] == "" {
			return quote.Errorf("model.merges line %d must be two tokens, is %q", i+1, pair)
		}
		*m = append(*m, [2]string(pair))
	}
	return nil
}

// strict decodes JSON; a key that is not in the struct is an error.
func strict(content []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	return quote.JSON(d.Decode(into))
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func typeOf(raw json.RawMessage) (string, error) {
	var t typeOnly
	if err := json.Unmarshal(raw, &t); err != nil {
		return "", quote.JSON(err)
	}
	return t.Type, nil
}

// modelType returns the model's type. Old files do not state it; the settings then decide.
func modelType(raw json.RawMessage) (string, error) {
	kind, err := typeOf(raw)
	if err != nil || kind != "" {
		return kind, err
	}
	var has struct {
		Merges  json.RawMessage `json:"merges"`
		Longest json.RawMessage `json:"max_input_chars_per_word"`
		Unknown json.RawMessage `json:"unk_id"`
	}
	if err := json.Unmarshal(raw, &has); err != nil {
		return "", err
	}
	switch {
	case has.Merges != nil:
		return "BPE", nil
	case has.Longest != nil:
		return "WordPiece", nil
	case has.Unknown != nil:
		return "Unigram", nil
	}
	return "", nil
}
