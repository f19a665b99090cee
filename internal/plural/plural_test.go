package plural_test

import (
	"testing"

	"popri/internal/plural"
)

func TestOf(t *testing.T) {
	for want, got := range map[string]string{"0 rounds": plural.Of(0, "round", ""),
		"1 round": plural.Of(1, "round", ""), "16000 copies": plural.Of(16000, "copy", "copies"),
		"were": plural.Word(2, "was", "were")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
