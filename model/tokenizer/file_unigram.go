package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"popri/internal/quote"
)

// parseUnigram reads SentencePiece's unigram model, as T5 and XLM-R have it.
func (t *Tokenizer) parseUnigram(file *tokenizerFile, added []AddedToken) error {
	var model struct {
		Type         string       `json:"type"`
		Unknown      *int         `json:"unk_id"`
		ByteFallback bool         `json:"byte_fallback"`
		Vocab        unigramVocab `json:"vocab"`
	}
	if err := strict(file.Model, &model); err != nil {
		return err
	}
	if len(model.Vocab.scores) == 0 {
		return errors.New("model.vocab is missing or empty")
	}
	var err error
	if t.normalizer, err = parseNormalizer(file.Normalizer, true); err != nil {
		return fmt.Errorf("normalizer: %w", err)
	}
	cutters, err := parseCutters(file.PreTokenizer, true)
	if err != nil {
		return fmt.Errorf("pre_tokenizer: %w", err)
	}
	mark := blank
	for _, c := range cutters {
		if m, ok := c.(metaspace); ok {
			mark = m.mark
		}
	}
	if t.joiner, err = parseUnigramDecoder(file.Decoder); err != nil {
		return fmt.Errorf("decoder: %w", err)
	}
	bytesOf := func(piece string) string {
		if b, ok := byteOfFallback(piece); ok && model.ByteFallback {
			return string([]byte{b})
		}
		return strings.ReplaceAll(piece, mark, " ")
	}
	if t.vocab, err = newVocabulary(model.Vocab.ids, added, bytesOf); err != nil {
		return err
	}
	t.model, err = newUnigram(t.vocab, model.Vocab.scores, model.Unknown, model.ByteFallback, cutters)
	return err
}

// UnmarshalJSON reads the list of pieces and scores, [["<unk>", 0], …].
func (v *unigramVocab) UnmarshalJSON(b []byte) error {
	var list [][]json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("model.vocab must be a list of pieces and scores: %w", quote.JSON(err))
	}
	if len(list) > maxID {
		return fmt.Errorf("model.vocab has more than the %d pieces that are allowed", maxID)
	}
	*v = unigramVocab{ids: map[string]int32{}}
	for id, pair := range list {
		var piece string
		if len(pair) != 2 || pair[0][0] != '"' || json.Unmarshal(pair[0], &piece) != nil ||
			pair[1][0] != '-' && (pair[1][0] < '0' || pair[1][0] > '9') {
			return fmt.Errorf("model.vocab: id %d is not a piece and its score", id)
		}
		value, err := score(json.Number(pair[1]))
		if err != nil {
			return quote.Errorf("model.vocab: id %d, %q: %w", id, piece, err)
		}
		if err := v.add(piece, value); err != nil {
			return err
		}
	}
	return nil
}

const knownNormalizers = "Precompiled, Replace, Prepend, Strip, NFC, Sequence"

// parseNormalizer reads one step or a Sequence of them; nil for none.
func parseNormalizer(raw json.RawMessage, outer bool) (normalizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	kind, err := typeOf(raw)
	if err != nil {
		return nil, err
	}
	var s struct {
		Type     string            `json:"type"`
		Charsmap *string           `json:"precompiled_charsmap"`
		Prepend  string            `json:"prepend"`
		Pattern  pattern           `json:"pattern"`
		Content  string            `json:"content"`
		Left     bool              `json:"strip_left"`
		Right    bool              `json:"strip_right"`
		List     []json.RawMessage `json:"normalizers"`
	}
	if err := strict(raw, &s); err != nil {
		return nil, err
	}
	switch {
	case kind == "Precompiled" && s.Charsmap == nil:
		return nil, errors.New("a Precompiled without precompiled_charsmap is not supported")
	case kind == "Precompiled":
		return newPrecompiled(*s.Charsmap)
	case kind == "Prepend":
		return prependText(s.Prepend), nil
	case kind == "Strip":
		return strip{s.Left, s.Right}, nil
	case kind == "NFC":
		return nfc{}, nil
	case kind == "Replace" && s.Pattern.String != nil && *s.Pattern.String != "":
		return replace{old: *s.Pattern.String, content: s.Content}, nil
	case kind == "Replace" && s.Pattern.Regex != nil && *s.Pattern.Regex == " {2,}":
		return replace{old: "  ", content: s.Content, runs: true}, nil
	case kind == "Replace" && s.Pattern.Regex != nil:
		return nil, quote.Errorf("a Replace of the expression %q is not supported (supported: a String, or \" {2,}\")",
			*s.Pattern.Regex)
	case kind == "Replace":
		return nil, errors.New("a Replace without a pattern is not supported")
	case kind == "Sequence" && outer:
		var list normalizers
		for _, raw := range s.List {
			step, err := parseNormalizer(raw, false)
			if err != nil {
				return nil, err
			}
			if step != nil {
				list = append(list, step)
			}
		}
		return list, nil
	}
	return nil, quote.Errorf("%q is not supported here (supported: %s)", kind, quote.Raw(knownNormalizers))
}

// parseCutters reads Metaspace, WhitespaceSplit or a Sequence of them.
func parseCutters(raw json.RawMessage, outer bool) ([]cutter, error) {
	if isNull(raw) {
		return nil, nil
	}
	kind, err := typeOf(raw)
	if err != nil {
		return nil, err
	}
	switch {
	case kind == "Metaspace":
		var m metaspace
		err := strict(raw, &m)
		return []cutter{m}, err
	case kind == "WhitespaceSplit":
		return []cutter{whitespaceSplit{}}, strict(raw, &typeOnly{})
	case kind == "Sequence" && outer:
		var s struct {
			Type string            `json:"type"`
			List []json.RawMessage `json:"pretokenizers"`
		}
		if err := strict(raw, &s); err != nil {
			return nil, err
		}
		var all []cutter
		for _, raw := range s.List {
			step, err := parseCutters(raw, false)
			if err != nil {
				return nil, err
			}
			all = append(all, step...)
		}
		return all, nil
	}
	return nil, quote.Errorf("%q is not supported here (supported: Metaspace, WhitespaceSplit, Sequence)", kind)
}

// UnmarshalJSON reads the settings of the pre-tokenizer and of the decoder.
func (m *metaspace) UnmarshalJSON(raw []byte) error {
	s := struct {
		Type   string `json:"type"`
		Mark   string `json:"replacement"`
		Prefix *bool  `json:"add_prefix_space"` // in older files, which have no scheme
		Scheme string `json:"prepend_scheme"`
		Split  *bool  `json:"split"`
		Shown  string `json:"str_rep"` // the mark once more, in older files
	}{Scheme: "always"}
	if err := strict(raw, &s); err != nil {
		return err
	}
	if len([]rune(s.Mark)) != 1 {
		return quote.Errorf("Metaspace's replacement %q is not one character", s.Mark)
	}
	schemes := map[string]prepend{"always": prependUnless, "first": prependFirst, "never": prependNever}
	before, ok := schemes[s.Scheme]
	if !ok {
		return quote.Errorf("Metaspace's prepend_scheme %q is not supported (supported: always, first, never)", s.Scheme)
	}
	if s.Prefix != nil && !*s.Prefix && before != prependNever {
		return quote.Errorf("Metaspace with add_prefix_space false and prepend_scheme %q contradicts itself", s.Scheme)
	}
	*m = metaspace{mark: s.Mark, scheme: before, split: s.Split == nil || *s.Split}
	return nil
}

// parseUnigramDecoder accepts Metaspace, and the steps of byte fallback.
func parseUnigramDecoder(raw json.RawMessage) (joiner, error) {
	if isNull(raw) {
		return nil, errors.New("is missing (supported: Metaspace; Sequence of Replace, ByteFallback, Fuse, Strip)")
	}
	kind, err := typeOf(raw)
	if err != nil {
		return nil, err
	}
	if kind == "Metaspace" {
		var m metaspace
		err := strict(raw, &m)
		return metaspaceDecoder{mark: m.mark, strip: m.scheme != prependNever}, err
	}
	strip, err := parseBlankDecoder(raw)
	return byteFallbackDecoder{strip: strip}, err
}
