package study

import (
	"strings"
	"testing"

	"popri/configs"
)

// A method whose runs cannot have the settings is refused before any run.
func TestOtherMethods(t *testing.T) {
	c := configs.Default()
	c.Trainer.Select = "distance"
	if err := OtherMethods(c, []string{"grpo", "public_selection"}); err == nil || !strings.Contains(err.Error(), "trainer.select") {
		t.Errorf("public_selection cannot select a round: %v", err)
	}
}
