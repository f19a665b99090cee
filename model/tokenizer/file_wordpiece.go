package tokenizer

import (
	"errors"
	"fmt"

	"popri/internal/quote"
)

// parseWordPiece reads BERT's tokenizer: BertNormalizer, BertPreTokenizer, WordPiece.
func (t *Tokenizer) parseWordPiece(file *tokenizerFile, added []AddedToken) error {
	model := struct {
		Type    string    `json:"type"`
		Unknown string    `json:"unk_token"`
		Prefix  string    `json:"continuing_subword_prefix"`
		Longest int       `json:"max_input_chars_per_word"`
		Vocab   vocabJSON `json:"vocab"`
	}{Unknown: "[UNK]", Prefix: "##", Longest: 100}
	if err := strict(file.Model, &model); err != nil {
		return err
	}
	switch {
	case model.Vocab == nil:
		return errors.New("model.vocab is missing")
	case model.Longest < 1:
		return fmt.Errorf("model.max_input_chars_per_word is %d", model.Longest)
	case model.Prefix == "":
		return errors.New("model.continuing_subword_prefix is empty, which is not supported")
	}
	n := struct {
		Type    string `json:"type"`
		Clean   bool   `json:"clean_text"`
		CJK     bool   `json:"handle_chinese_chars"`
		Accents *bool  `json:"strip_accents"`
		Lower   bool   `json:"lowercase"`
	}{}
	if err := parseKind("normalizer", "BertNormalizer", file.Normalizer, &n); err != nil {
		return err
	}
	if !n.Clean {
		return errors.New("normalizer: BertNormalizer without clean_text is not supported")
	}
	if n.Accents != nil && *n.Accents != n.Lower {
		return fmt.Errorf("normalizer: BertNormalizer with strip_accents %v and lowercase %v is not supported "+
			"(supported: both or neither)", *n.Accents, n.Lower)
	}
	b := &bertNormalizer{cjk: n.CJK}
	if n.Lower {
		b.folded = bertFolded()
	}
	t.normalizer = b
	if err := parseKind("pre_tokenizer", "BertPreTokenizer", file.PreTokenizer, &typeOnly{}); err != nil {
		return err
	}
	d := struct {
		Type    string `json:"type"`
		Prefix  string `json:"prefix"`
		Cleanup bool   `json:"cleanup"`
	}{}
	if err := parseKind("decoder", "WordPiece", file.Decoder, &d); err != nil {
		return err
	}
	t.joiner = wordPieceDecoder{prefix: d.Prefix, cleanup: d.Cleanup}
	var err error
	if t.vocab, err = newVocabulary(model.Vocab, added, func(piece string) string { return piece }); err != nil {
		return err
	}
	t.model, err = newWordPiece(t.vocab, model.Prefix, model.Unknown, model.Longest)
	return err
}

// parseKind reads a section that must have one type.
func parseKind(section, kind string, raw []byte, into any) error {
	if isNull(raw) {
		return fmt.Errorf("%s is missing (supported: %s)", section, kind)
	}
	is, err := typeOf(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", section, err)
	}
	if is != kind {
		return quote.Errorf("%s: %q is not supported here (supported: %s)", section, is, kind)
	}
	if err := strict(raw, into); err != nil {
		return fmt.Errorf("%s: %w", section, err)
	}
	return nil
}
