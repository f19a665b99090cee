package quote_test

import (
	"testing"

	"popri/internal/quote"
)

func TestOf(t *testing.T) {
	for want, got := range map[string]string{"0 rounds": quote.Count(0, "round", ""),
		"1 round": quote.Count(1, "round", ""), "16000 copies": quote.Count(16000, "copy", "copies"),
		"were": quote.Plural(2, "was", "were")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
