package study

import (
	"strings"
	"testing"

	"popri/configs"
)

// A method whose runs cannot have the settings is refused before any run.
func TestOtherMethods(t *testing.T) {
	c := configs.Default()
	c.Method, c.Scoring.Release, c.Scoring.Denoise = "public_selection", "votes", "none"
	c.Generate.Quote, c.Synthetic.PublicTexts = "public", 0
	if err := OtherMethods(c, []string{"grpo"}); err == nil || !strings.Contains(err.Error(), "scoring.objective") {
		t.Errorf("grpo learns from votes by the witness: %v", err)
	}
}
