package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/fedsim/audit"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/run/auditing"
	"popri/run/reporting"
	"popri/testkit/testworld"
)

// TestPooledReleases: a run whose scores use all releases so far has the charges of any other, keeps less noise from
// round to round, and goes on after a kill to the same bytes.
func TestPooledReleases(t *testing.T) {
	w := testworld.Shared(t)
	for _, kind := range []string{"rounds", "compact"} {
		c := w.Config
		c.Scoring.Release, c.Scoring.Denoise, c.Trainer.Rounds = kind, "pool", 3
		want := t.TempDir()
		if err := train(t.Context(), Options{Config: c, Dir: want}); err != nil {
			t.Fatal(err)
		}
		if _, entries := testworld.Charges(t, want); len(entries) != 3 {
			t.Errorf("%s: %d charges", kind, len(entries))
		}
		r, err := audit.Run(want, audit.Options{Expect: auditing.Expected})
		if err != nil || !r.Sound() {
			t.Errorf("%s: the audit: %q (%v)", kind, r.Problems, err)
		}
		page, err := reporting.Of(want)
		if err != nil || page.Privacy.Denoise != "pool" {
			t.Errorf("%s: the report says that releases are denoised by %q (%v)", kind, page.Privacy.Denoise, err)
		}
		figures, err := rounds.ReadMetrics(want)
		if err != nil || len(figures) != 3 {
			t.Fatal(len(figures), err)
		}
		for i := 1; i < 3; i++ {
			if before, now := figures[i-1].Values["noise_kept"], figures[i].Values["noise_kept"]; !(now > 0 &&
				now < 0.95*before) {
				t.Errorf("%s: round %d keeps %g of the noise, the round before %g", kind, i+1, now, before)
			}
		}
		sameInterrupted(t, c, want, rounds.Stage{Name: "dpo", Round: 2}, rounds.Stage{Name: "generate", Round: 3},
			rounds.Stage{Name: "pairs", Round: 3})
	}
}

// TestPooledBeginsAsProjected: round 1 gives the scores of the projection. Later rounds need the sums of the round
// before.
func TestPooledBeginsAsProjected(t *testing.T) {
	w := testworld.Shared(t)
	scores := map[string][]policy.ScoreRow{}
	dirs := map[string]string{}
	for _, denoise := range []string{"project", "pool"} {
		c := w.Config
		c.Scoring.Denoise, c.Trainer.Rounds = denoise, 2
		dirs[denoise] = t.TempDir()
		o := Options{Config: c, Dir: dirs[denoise]}
		ctx, stop := context.WithCancel(t.Context())
		o.Events.StageBegin = func(s rounds.Stage) {
			if s.Name == "generate" && s.Round == 2 {
				stop()
			}
		}
		if err := train(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		var err error
		if scores[denoise], err = rows.Read[policy.ScoreRow](filepath.Join(rundir.Round(o.Dir, 1),
			policy.ScoresFile)); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range scores["project"] {
		if q := scores["pool"][i]; q.Noisy != p.Noisy || q.Score-p.Score > 1e-9 || p.Score-q.Score > 1e-9 {
			t.Fatalf("sample %d: pooled %+v, projected %+v", i, q, p)
		}
	}
	lost := filepath.Join(rundir.Round(dirs["pool"], 1), policy.PooledFile)
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	err := train(t.Context(), Options{Dir: dirs["pool"], Resume: true})
	if err == nil || !strings.Contains(err.Error(), policy.PooledFile) {
		t.Errorf("without the sums of round 1, the error is %v", err)
	}
}
