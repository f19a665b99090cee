package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"popri/internal/quote"
)

// parseByteFallback reads LLaMA 2's tokenizer: the normalizer (Prepend and Replace) or the pre-tokenizer (Metaspace)
// turns spaces into blanks, and the decoder reverses this.
func (t *Tokenizer) parseByteFallback(file *tokenizerFile, settings *bpeSettings, added []AddedToken) error {
	if settings.IgnoreMerges {
		return errors.New("model.ignore_merges with byte_fallback is not supported")
	}
	toBlanks, before, err := parseBlanks(file.Normalizer)
	if err != nil {
		return fmt.Errorf("normalizer: %w", err)
	}
	inNormalizer := toBlanks != nil
	if inNormalizer && splitsBlanks(file.PreTokenizer) {
		file.PreTokenizer = nil
	}
	inSplit, scheme, err := parseMetaspace(file.PreTokenizer)
	if err != nil {
		return err
	}
	if inNormalizer == inSplit {
		return errors.New("byte_fallback needs spaces to become blanks either in the normalizer (Replace) or in " +
			"the pre_tokenizer (Metaspace)")
	}
	if inSplit {
		before = scheme
	}
	// The model inserts the blanks itself, which is faster; but normalized added tokens are searched in text with
	// blanks.
	if inNormalizer && slices.ContainsFunc(added, func(a AddedToken) bool { return a.Normalized }) {
		t.normalizer, before = toBlanks, prependNever
	}
	strip, err := parseBlankDecoder(file.Decoder)
	if err != nil {
		return fmt.Errorf("decoder: %w", err)
	}
	t.joiner = byteFallbackDecoder{strip: strip}
	if t.vocab, err = newVocabulary(settings.Vocab, added, bytesOfFallback); err != nil {
		return err
	}
	if _, ok := t.vocab.model[blank]; !ok {
		return quote.Errorf("model.vocab lacks %q, which stands for a space", blank)
	}
	t.model, err = newByteFallback(t.vocab, settings.Merges, before)
	return err
}

// step is one element of a decoder's Sequence, with the settings of the known elements.
type step struct {
	Type    string   `json:"type"`
	Pattern *pattern `json:"pattern"`
	Content *string  `json:"content"`
	Start   *int     `json:"start"`
	Stop    *int     `json:"stop"`
}

// pattern is what a step looks for.
type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

func (s step) replaces(from, to string) bool {
	return s.Type == "Replace" && s.Pattern != nil && s.Pattern.String != nil && *s.Pattern.String == from &&
		s.Content != nil && *s.Content == to
}

// steps reads one step or a Sequence of them.
func steps(raw json.RawMessage) ([]step, error) {
	kind, err := typeOf(raw)
	if err != nil {
		return nil, err
	}
	if kind != "Sequence" {
		out := make([]step, 1)
		return out, strict(raw, &out[0])
	}
	var sequence struct {
		Type string `json:"type"`
		List []step `json:"decoders"`
	}
	err = strict(raw, &sequence)
	return sequence.List, err
}

// parseBlanks reads a normalizer that turns spaces into blanks, and before which parts it puts one; nil for none.
func parseBlanks(raw json.RawMessage) (n normalizer, before prepend, err error) {
	if n, err = parseNormalizer(raw, true); n == nil || err != nil {
		return nil, prependNever, err
	}
	list, ok := n.(normalizers)
	if !ok {
		list = normalizers{n}
	}
	if len(list) > 0 && list[0] == prependText(blank) {
		before, list = prependPart, list[1:]
	}
	if len(list) != 1 || list[0] != (replace{old: " ", content: blank}) {
		return nil, prependNever, quote.Errorf("with byte_fallback only Prepend %q and Replace \" \" by it are supported", blank)
	}
	return n, before, nil
}

// splitsBlanks recognises Gemma's split after spaces, of which the normalizer has left none.
func splitsBlanks(raw json.RawMessage) bool {
	var s struct {
		Type     string            `json:"type"`
		Pattern  map[string]string `json:"pattern"`
		Behavior string            `json:"behavior"`
		Invert   bool              `json:"invert"`
	}
	return strict(raw, &s) == nil && s.Type == "Split" && s.Pattern["String"] == " " && !s.Invert
}

func parseMetaspace(raw json.RawMessage) (is bool, before prepend, err error) {
	if isNull(raw) {
		return false, prependNever, nil
	}
	var m metaspace
	err = parseKind("pre_tokenizer", "Metaspace", raw, &m)
	if err == nil && (m.mark != blank || m.split) {
		err = quote.Errorf("pre_tokenizer: Metaspace with replacement %q and split %v is not supported (supported: "+
			"%q and false)", m.mark, m.split, blank)
	}
	return true, m.scheme, err
}

// parseBlankDecoder accepts Replace, ByteFallback, Fuse, and optionally Strip of one space at the start.
func parseBlankDecoder(raw json.RawMessage) (strip bool, err error) {
	if isNull(raw) {
		return false, errors.New("is missing (supported with byte_fallback: Replace, ByteFallback, Fuse, Strip)")
	}
	list, err := steps(raw)
	if err != nil {
		return false, err
	}
	if n := len(list); n == 4 {
		s := list[3]
		if s.Type != "Strip" || s.Content == nil || *s.Content != " " || s.Start == nil || *s.Start != 1 ||
			s.Stop == nil || *s.Stop != 0 {
			return false, errors.New("a Strip of anything but one space at the start is not supported")
		}
		strip, list = true, list[:3]
	}
	if len(list) != 3 || !list[0].replaces(blank, " ") || list[1].Type != "ByteFallback" || list[2].Type != "Fuse" {
		return false, quote.Errorf("with byte_fallback only a Sequence of Replace %q, ByteFallback, Fuse and "+
			"Strip is supported", blank)
	}
	return strip, nil
}
