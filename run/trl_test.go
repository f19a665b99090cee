package run

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/configs"
	"popri/dpo"
	"popri/dpo/preference"
	"popri/dpo/trl"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/run/reporting"
	"popri/testkit/goldentensor"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// inTRL has TRL train on pairs of two epochs, the last update of each incomplete, with held-out pairs.
func inTRL(c *configs.Config) {
	c.DPO.Engine = configs.TRL
	c.Optimizer.Epochs, c.DPO.EvalShare, c.Model.Device = 2, 0.2, "cpu"
}

func stepsOf(t *testing.T, dir string, round int) []dpo.Metrics {
	t.Helper()
	return testfile.ReadLines[dpo.Metrics](t, filepath.Join(rundir.Round(dir, round), preference.StepsFile))
}

// TestTrainsInTRL: a run whose rounds TRL trains has the trace of one that trains here, within the tolerances of the
// golden traces of preference training, and ends with the same adapter: in one process, and in two that torchrun
// starts, which accelerate launch calls for several cards.
func TestTrainsInTRL(t *testing.T) {
	python := enginePython(t, "trl")
	for name, set := range map[string]func(c *configs.Config){
		"sigmoid":  func(*configs.Config) {},
		"exo_pair": func(c *configs.Config) { c.DPO.Loss, c.DPO.LabelSmoothing = "exo_pair", 1e-3 },
	} {
		t.Run(name, func(t *testing.T) { trainsInTRL(t, set, 1) })
	}
	t.Run("two processes", func(t *testing.T) {
		t.Setenv("POPRI_TRL", python+" -m torch.distributed.run --standalone --nproc_per_node 2")
		t.Setenv("ACCELERATE_USE_CPU", "true")
		trainsInTRL(t, func(*configs.Config) {}, 2)
	})
}

func trainsInTRL(t *testing.T, set func(c *configs.Config), processes int) {
	w := testworld.Shared(t)
	c := w.Config
	inTRL(&c)
	set(&c)
	// A micro-batch for each pair: TRL gives micro-batches the same weight, popri pairs.
	c.DPO.MicroPairs, c.Trainer.Rounds = 1, 1
	dir, here := t.TempDir(), t.TempDir()
	started := 0
	o := Options{Config: c, Dir: dir, Events: rounds.Events{Log: func(event string, _ int, v any) {
		if event == "dpo_engine" {
			started = v.(*trl.Result).Processes
		}
	}}}
	mustTrain(t, o)
	if started != processes {
		t.Errorf("TRL trained in %d processes, want %d", started, processes)
	}
	c.DPO.Engine = "local"
	mustTrain(t, Options{Config: c, Dir: here})
	largest := 0.0
	for round := 1; round <= c.Trainer.Rounds; round++ {
		got, want := stepsOf(t, dir, round), stepsOf(t, here, round)
		if len(got) != len(want) || len(want) < 5 {
			t.Fatalf("round %d: %d updates, want %d", round, len(got), len(want))
		}
		for i, m := range got {
			near := func(what string, got, want, tolerance float64) {
				t.Helper()
				if !(math.Abs(got-want) <= tolerance) {
					t.Errorf("round %d, step %d: %s is %g, want %g", round, m.Step, what, got, want)
				}
			}
			n := want[i]
			near("loss", m.Loss, n.Loss, 5e-5)
			near("rewards/chosen", m.RewardsChosen, n.RewardsChosen, 5e-5)
			near("rewards/rejected", m.RewardsRejected, n.RewardsRejected, 5e-5)
			near("rewards/margins", m.RewardsMargins, n.RewardsMargins, 5e-5)
			if math.Abs(n.RewardsMargins) > 1e-6 { // before the adapter has moved, rounding decides
				near("rewards/accuracies", m.Accuracy, n.Accuracy, 1e-6)
			}
			near("logps/chosen", m.LogpsChosen, n.LogpsChosen, 5e-4)
			near("logps/rejected", m.LogpsRejected, n.LogpsRejected, 5e-4)
			near("grad_norm", m.GradNorm, n.GradNorm, math.Max(1e-4, 5e-5*n.GradNorm))
			near("learning_rate", m.LearningRate, n.LearningRate, 1e-12)
			near("epoch", m.Epoch, n.Epoch, 1e-9)
			if m.Step != n.Step || m.NumTokens != n.NumTokens || m.Pairs != n.Pairs {
				t.Errorf("round %d, step %d: %+v, want %+v", round, i, m, n)
			}
			largest = math.Max(largest, math.Abs(m.Loss-n.Loss))
		}
		if rundir.Has(rundir.Round(dir, round), "trl") {
			t.Errorf("round %d still has what TRL was given", round)
		}
		file := filepath.Join("adapter", "adapter_model.safetensors")
		goldentensor.NearFiles(t, filepath.Join(rundir.Round(dir, round), file),
			filepath.Join(rundir.Round(here, round), file), 2e-5)
	}
	t.Logf("the largest difference of a loss is %.1e", largest)
	events, err := os.ReadFile(filepath.Join(dir, rundir.Synthetic))
	if err != nil || len(events) == 0 {
		t.Errorf("no product: %v", err)
	}
	page, err := reporting.Of(dir)
	if err != nil || !strings.Contains(strings.Join(page.Privacy.Statement, "\n"), "TRL trained the adapters") {
		t.Errorf("the report does not say that TRL trained: %q (%v)", page.Privacy.Statement, err)
	}
}
