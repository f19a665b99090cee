package trackers

import (
	"fmt"
	"testing"
)

func TestReader(t *testing.T) {
	var r Reader
	got := ""
	for _, x := range []struct {
		event  string
		round  int
		fields map[string]any
	}{
		{"public_texts", 0, map[string]any{"usable": 3.0}},
		{"dpo_step", 1, map[string]any{"step": 1.0, "loss": 0.5, "rewards/margins": 0.25, "round": 1.0}},
		{"dpo_step", 1, map[string]any{"step": 2.0, "loss": 0.25}},
		{DPOEval, 1, map[string]any{"step": 2.0, "epoch": 1.0, "eval_loss": 0.75, "best": true}},
		{RoundEnd, 1, map[string]any{"round": 1.0, "loss": 0.375, "epsilon_spent": 1.0}},
		{"dpo_step", 2, map[string]any{"step": 3.0, "loss": 0.125}},
		{DPOEval, 2, map[string]any{"step": 1.0, "eval_loss": 0.5}}, // counted within the round
		{"other_step", 3, map[string]any{"step": 4.0, "reward": 0.5, "entropy": "NaN"}},
		{"dpo_step", 3, map[string]any{"loss": 1.0}}, // no step
	} {
		for _, p := range r.Read(x.event, x.round, x.fields, at) {
			got += fmt.Sprintln(p.Key, p.Step, p.Value)
		}
	}
	want := "loss 1 0.5\nrewards/margins 1 0.25\nloss 2 0.25\neval_loss 2 0.75\nround/epsilon_spent 1 1\nround/loss " +
		"1 0.375\nloss 3 0.125\neval_loss 3 0.5\nreward 4 0.5\n"
	if got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}
