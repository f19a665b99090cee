package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"

	"popri/internal/quote"
)

// parseBPE reads byte-level BPE.
func (t *Tokenizer) parseBPE(file *tokenizerFile, settings *bpeSettings, added []AddedToken) error {
	if !isNull(file.Normalizer) {
		kind, err := typeOf(file.Normalizer)
		if err != nil {
			return fmt.Errorf("normalizer: %w", err)
		}
		if kind != "NFC" {
			return quote.Errorf("normalizer %q is not supported for byte-level BPE (supported: NFC or none)", kind)
		}
		t.normalizer = nfc{}
	}
	split, prefix, err := parsePreTokenizer(file.PreTokenizer)
	if err != nil {
		return fmt.Errorf("pre_tokenizer: %w", err)
	}
	if err := parseKind("decoder", "ByteLevel", file.Decoder, &byteLevelSettings{}); err != nil { // it uses none of them
		return err
	}
	if t.vocab, err = newVocabulary(settings.Vocab, added, bytesOfPiece); err != nil {
		return err
	}
	m, err := newByteLevel(t.vocab, settings, split)
	if err != nil {
		return err
	}
	m.prefix = prefix
	t.model = m
	return nil
}

// checkBPE refuses settings that are not supported.
func checkBPE(s *bpeSettings) error {
	empty := func(text *string) bool { return text == nil || *text == "" }
	switch {
	case s.Vocab == nil:
		return errors.New("model.vocab is missing")
	case s.Dropout != nil && *s.Dropout != 0:
		return fmt.Errorf("model.dropout %v is not supported: the same text would give different ids", *s.Dropout)
	case !empty(s.ContinuingSubwordPrefix):
		return quote.Errorf("model.continuing_subword_prefix %q is not supported (supported: none)", *s.ContinuingSubwordPrefix)
	case !empty(s.EndOfWordSuffix):
		return quote.Errorf("model.end_of_word_suffix %q is not supported (supported: none)", *s.EndOfWordSuffix)
	}
	return nil
}

// parsePreTokenizer accepts ByteLevel alone, Split by a known expression followed by ByteLevel, and Digits followed by
// ByteLevel. prefix says that ByteLevel, alone, puts a space before a text.
func parsePreTokenizer(raw json.RawMessage) (split Split, prefix bool, err error) {
	if isNull(raw) {
		return "", false, errors.New("is missing (supported: ByteLevel; Sequence of Split and ByteLevel)")
	}
	kind, err := typeOf(raw)
	if err != nil {
		return "", false, err
	}
	switch kind {
	case "ByteLevel":
		var settings byteLevelSettings
		if err := strict(raw, &settings); err != nil {
			return "", false, err
		}
		if !settings.splits() {
			return "", false, errors.New("ByteLevel without use_regex and without a Split before it is not supported")
		}
		return SplitGPT2, settings.AddPrefixSpace, nil
	case "Sequence":
		split, err := parseSplits(raw)
		return split, false, err
	}
	return "", false, quote.Errorf("%q is not supported (supported: ByteLevel; Sequence of Split and ByteLevel)", kind)
}

// parseSplits reads a Sequence of Split or Digits and ByteLevel.
func parseSplits(raw json.RawMessage) (Split, error) {
	var sequence struct {
		Type          string            `json:"type"`
		PreTokenizers []json.RawMessage `json:"pretokenizers"`
	}
	if err := strict(raw, &sequence); err != nil {
		return "", err
	}
	if len(sequence.PreTokenizers) != 2 {
		return "", fmt.Errorf("a Sequence of %d is not supported (supported: Split and ByteLevel)", len(sequence.PreTokenizers))
	}
	var split struct {
		Type     string  `json:"type"`
		Pattern  pattern `json:"pattern"`
		Behavior string  `json:"behavior"`
		Invert   bool    `json:"invert"`
	}
	first, err := typeOf(sequence.PreTokenizers[0])
	if err != nil {
		return "", err
	}
	if first == "Digits" {
		return parseDigits(sequence.PreTokenizers)
	}
	if first != "Split" {
		return "", quote.Errorf("%q at the start of a Sequence is not supported (supported: Split and ByteLevel)", first)
	}
	if err := strict(sequence.PreTokenizers[0], &split); err != nil {
		return "", err
	}
	if split.Pattern.Regex == nil || split.Behavior != "Isolated" || split.Invert {
		return "", quote.Errorf("a Split with behavior %q, invert %v is not supported (supported: a Regex, "+
			"\"Isolated\", false)", split.Behavior, split.Invert)
	}
	known := Split("")
	for name, s := range splits {
		if s.pattern == *split.Pattern.Regex {
			known = name
		}
	}
	if known == "" {
		return "", quote.Errorf("a Split by %q is not supported (supported: the expressions of GPT-2, LLaMA "+
			"3, Qwen 2 and GPT-4o)", *split.Pattern.Regex)
	}
	return known, parseByteLevel(sequence.PreTokenizers[1], first, false)
}

// parseDigits reads single digits followed by ByteLevel's own split.
func parseDigits(list []json.RawMessage) (Split, error) {
	var digits struct {
		Type       string `json:"type"`
		Individual bool   `json:"individual_digits"`
	}
	if err := strict(list[0], &digits); err != nil {
		return "", err
	}
	if !digits.Individual {
		return "", errors.New("a Digits step without individual_digits is not supported")
	}
	return SplitDigits, parseByteLevel(list[1], "Digits", true)
}

// parseByteLevel reads the last step of a Sequence, which must split itself or must not. A space before the text is
// refused, because it would stand before every part that the step before made.
func parseByteLevel(raw json.RawMessage, after string, splits bool) error {
	var settings byteLevelSettings
	if err := parseKind("after "+after, "ByteLevel", raw, &settings); err != nil {
		return err
	}
	if settings.AddPrefixSpace {
		return errors.New("ByteLevel with add_prefix_space in a Sequence is not supported")
	}
	if settings.splits() != splits {
		return fmt.Errorf("ByteLevel with use_regex %v after %s is not supported", settings.splits(), after)
	}
	return nil
}
