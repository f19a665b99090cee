package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"popri/configs"
	"popri/internal/fault"
	"popri/methods/rounds"
	"popri/run/reporting"
	"popri/testkit/testworld"
)

// interrupted trains, and continues whenever a listener has stopped it, until the run is done. It returns how often.
func interrupted(t *testing.T, o Options, listen func(stop func()) rounds.Events) (times int) {
	t.Helper()
	for ; ; times++ {
		ctx, stop := context.WithCancel(t.Context())
		o.Events = listen(stop)
		err := train(ctx, o)
		stop()
		if err == nil {
			return times
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		o.Resume = true
	}
}

// TestPreferenceOptions runs rounds with the options of preference training, and the same interrupted after every third
// step and resumed: the files must be the same.
func TestPreferenceOptions(t *testing.T) {
	w := testworld.Shared(t)
	for name, change := range map[string]func(d *configs.DPO, o *configs.Optimizer){
		"held-out": func(d *configs.DPO, o *configs.Optimizer) {
			d.EvalShare, d.Best, o.Epochs, o.LearningRate, o.WarmupSteps = 0.3, "pairs", 4, 5e-2, 0.2
		},
		"fid": func(d *configs.DPO, o *configs.Optimizer) {
			d.Best, o.Epochs, o.LearningRate, o.Schedule = "fid", 3, 5e-2, "linear"
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := w.Config
			change(&c.DPO, &c.Optimizer)
			want, dir := t.TempDir(), t.TempDir()
			var stale error
			notRead := func(event map[string]any) {
				if why, ok := event["not_read"]; ok {
					stale = fmt.Errorf("%v", why)
				}
			}
			listen := rounds.Events{Log: func(event string, _ int, v any) {
				if event == "dpo_reference" {
					notRead(v.(map[string]any))
				}
			}}
			mustTrain(t, Options{Config: c, Dir: want, Events: listen})
			read, done := 0, 0
			interrupted(t, Options{Config: c, Dir: dir}, func(stop func()) rounds.Events {
				return rounds.Events{Log: func(event string, _ int, v any) {
					switch event {
					case "dpo_step":
						if done++; done%3 == 1 {
							stop()
						}
					case "dpo_reference":
						fields := v.(map[string]any)
						notRead(fields)
						if fields["read"] == true {
							read++
						}
					}
				}}
			})
			sameRun(t, dir, want)
			if read == 0 || stale != nil {
				t.Errorf("the reference was read %d times; not used: %v", read, stale)
			}
			rounds, err := rounds.ReadMetrics(want)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range rounds {
				steps := stepsOf(t, want, m.Number)
				v, n := m.Values, m.Values["steps"]
				if float64(len(steps)) != n || n == 0 || v["eval_step"] < 1 || v["eval_step"] > n ||
					steps[len(steps)-1].NumTokens <= steps[0].NumTokens {
					t.Errorf("round %d: %d steps, %+v", m.Number, len(steps), m)
				}
				if name == "held-out" &&
					(v["held_out"] < 2 || v["held_out"] >= v["pairs"]/2 || m.Get("eval_loss") == nil ||
						(steps[0].LearningRate == 0) != (m.Number == 1) || m.Get("eval_fid") != nil) {
					t.Errorf("round %d: %+v, the first rate %g", m.Number, m, steps[0].LearningRate)
				}
				// The reference is the model without adapters: only the run begins at a margin of 0.
				if atStart := math.Abs(steps[0].Loss-math.Ln2) < 1e-6; atStart != (m.Number == 1) {
					t.Errorf("round %d begins with the loss %g", m.Number, steps[0].Loss)
				}
				if name == "fid" && (!(v["eval_fid"] > 0) || m.Get("eval_loss") != nil) {
					t.Errorf("round %d: %+v", m.Number, m)
				}
			}
			page, err := reporting.Of(want)
			if err != nil {
				t.Fatal(err)
			}
			if warned := strings.Contains(strings.Join(page.Privacy.Warnings, " "),
				"Validation clients are not protected"); warned != (name == "fid") {
				t.Errorf("the report warns: %v", page.Privacy.Warnings)
			}
		})
	}
	c := w.Config
	c.DPO.Best = "pairs"
	if err := train(t.Context(), Options{Config: c, Dir: t.TempDir()}); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), "dpo.eval_share") {
		t.Errorf("%v", err)
	}
	c.DPO.EvalShare, c.Generate.Prompts, c.Trainer.Rounds = 0.5, 1, 1 // the pairs of one prompt are not divided
	trained(t, c)
}
