package tokenizer

import (
	"errors"
	"fmt"

	"popri/internal/exactjson"
	"popri/internal/quote"
)

// Description is the inverse of [Build], for files of other formats. A tokenizer that is no BPE, or that does what a
// description does not say, gives an error.
func (t *Tokenizer) Description() (Description, error) {
	var file tokenizerFile
	var settings bpeSettings
	if err := strict(exactjson.TrimBOM(t.source), &file); err != nil {
		return Description{}, fmt.Errorf("tokenizer: %w", err)
	}
	d := Description{Pieces: make([]string, len(t.vocab.pieces)), Added: file.AddedTokens, Before: t.prefix, After: t.suff}
	switch m := t.model.(type) {
	case *byteLevel:
		if m.prefix {
			return d, errors.New("pre_tokenizer: add_prefix_space is true")
		}
		d.Split, d.NFC, d.IgnoreMerges = m.name, t.normalizer != nil, m.ignoreMerges != nil
		if m.unknown != noID {
			d.Unknown = t.vocab.pieces[m.unknown]
		}
	case *byteFallback:
		d.Scheme = map[prepend]string{prependUnless: "always", prependFirst: "first"}[m.prepend]
		d.Prepend = m.prepend != prependNever
	default:
		return d, errors.New("model: is no BPE")
	}
	if err := strict(file.Model, &settings); err != nil {
		return d, fmt.Errorf("tokenizer: %w", err)
	}
	d.Merges = settings.Merges
	for piece, id := range settings.Vocab {
		d.Pieces[id] = piece
	}
	if d.Split == "" && settings.UnkToken != nil {
		d.Unknown = *settings.UnkToken
	}
	for _, a := range d.Added {
		if a.Normalized && t.normalizer != nil && t.normalizer.normalize(a.Content) != a.Content {
			return d, quote.Errorf("added_tokens: %q is normalized, which changes it", a.Content)
		}
	}
	return d, nil
}
