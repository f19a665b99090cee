package popri

import (
	"strings"
	"testing"

	"popri/configs"
	"popri/dpo"
)

func TestIdle(t *testing.T) {
	c := configs.Default()
	steps := func(margin float64) []dpo.Metrics {
		return []dpo.Metrics{{}, {}, {Loss: 0.6931, RewardsMargins: margin, LearningRate: 1e-9}}
	}
	if text := idle(c, steps(1e-6)); !strings.Contains(text, "3 updates moved nothing") || !strings.Contains(text, "1e-09") {
		t.Errorf("a margin of 1e-6: %q", text)
	}
	for name, moved := range map[string][]dpo.Metrics{"up": steps(0.01), "down": steps(-0.01), "two": steps(0)[:2]} {
		if text := idle(c, moved); text != "" {
			t.Errorf("%s: %q", name, text)
		}
	}
}
