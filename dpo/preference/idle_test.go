package preference

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
	if text := Idle(c, steps(1e-6)); !strings.Contains(text, "3 updates moved nothing") || !strings.Contains(text, "1e-09") {
		t.Errorf("a margin of 1e-6: %q", text)
	}
	if text := Idle(c, steps(0)[:2]); !strings.Contains(text, "2 updates moved nothing") {
		t.Errorf("rates of 0: %q", text)
	}
	if text := Idle(c, steps(0)[:1]); !strings.Contains(text, "the 1 update moved nothing") {
		t.Errorf("one rate of 0: %q", text)
	}
	for name, moved := range map[string][]dpo.Metrics{"up": steps(0.01), "down": steps(-0.01), "two": steps(0)[1:]} {
		if text := Idle(c, moved); text != "" {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestScheduleOfFewSteps(t *testing.T) {
	o := configs.Default().Optimizer
	for steps, want := range map[int]int{1: 0, 2: 1, 3: 1, 9: 4, 10: 5, 100: 5} {
		if s := Schedule(o, steps); s.Warmup != want || s.At(steps/2) == 0 {
			t.Errorf("%d steps: a warm-up of %d, want %d; then a rate of %g", steps, s.Warmup, want, s.At(steps/2))
		}
	}
}
