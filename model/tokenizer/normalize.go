package tokenizer

import "golang.org/x/text/unicode/norm"

// A normalizer rewrites a text before it is tokenized.
type normalizer interface {
	normalize(text string) string
}

// nfc is Unicode's canonical composition, which Qwen uses.
type nfc struct{}

func (nfc) normalize(text string) string { return norm.NFC.String(text) }
