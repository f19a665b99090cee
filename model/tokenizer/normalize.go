package tokenizer

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// A normalizer rewrites a text before it is tokenized.
type normalizer interface {
	normalize(text string) string
}

// nfc is Unicode's canonical composition, which Qwen uses.
type nfc struct{}

func (nfc) normalize(text string) string { return norm.NFC.String(text) }

// blanks is Prepend and Replace of LLaMA 2: spaces become blanks, and if prepend is set, one is put before the text.
type blanks struct{ prepend bool }

func (b blanks) normalize(text string) string {
	if b.prepend && text != "" {
		text = blank + text
	}
	return strings.ReplaceAll(text, " ", blank)
}
