package run

import (
	"io/fs"
	"math"
	"path/filepath"
	"testing"

	"popri/configs"
	"popri/fedsim"
	"popri/fedsim/audit"
	"popri/internal/rundir"
	"popri/methods/evolution"
	"popri/run/auditing"
	"popri/testkit/testworld"
)

// played audits a run, game included, whose files must all be known: what popri publish leaves out is left out by choice.
func played(t *testing.T, dir string, o auditing.Options) auditing.Audited {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if _, ok := rundir.Find(filepath.ToSlash(name)); !ok {
			t.Errorf("internal/rundir lists no %s", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := auditing.Runs([]string{dir}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r.Runs[0]
}

// sound audits a run, which must be sound and have as many releases as are told.
func sound(t *testing.T, dir string, releases int) *audit.Report {
	t.Helper()
	r, err := audit.Run(dir, audit.Options{Expect: auditing.Expected})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Sound() || r.Releases != releases {
		t.Errorf("the audit: %d releases, want %d, %q", r.Releases, releases, r.Problems)
	}
	return r
}

// TestGames: the canary game is played with the question, the norm bound and the noise of a run of each method, as
// often as the run was charged. It holds, and with three tenths of the noise it does not. (TestLearningGame,
// TestHotPATEGame and TestGeneticGame have the other methods.)
func TestGames(t *testing.T) {
	for name, set := range map[string]func(t *testing.T, c *configs.Config){
		"scores":        func(_ *testing.T, c *configs.Config) { c.Scoring.Normalize = "standardize" },
		"nearest votes": func(_ *testing.T, c *configs.Config) { c.Method = evolution.Description.Name },
		"dp_fedavg":     func(_ *testing.T, c *configs.Config) { c.Method = "dp_fedavg" },
		"word_pairs":    func(_ *testing.T, c *configs.Config) { c.Method = "word_pairs" },
		"wasp":          func(t *testing.T, c *configs.Config) { *c = wasped(t) },
		"genetic, by sums": func(_ *testing.T, c *configs.Config) {
			c.Method = "genetic_eda"
			testworld.Set(c, "genetic_eda.selection=gaussian")
		},
		"variations": func(_ *testing.T, c *configs.Config) {
			c.Method = evolution.Description.Name
			testworld.Set(c, "private_evolution.variant=aug_pe")
		},
		"teachers of few clients": func(t *testing.T, c *configs.Config) {
			*c = voting(t)
			testworld.Set(c, "hot_pate.ensemble=heterogeneous", "hot_pate.teachers=10", "hot_pate.texts=1")
			c.Trainer.Rounds = 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testworld.Shared(t).Config
			set(t, &c)
			c.Privacy.Epsilon = 4
			dir := trained(t, c)
			for _, factor := range []float64{1, .3} {
				a := played(t, dir, auditing.Options{SkipNoise: true,
					Game: fedsim.Game{Trials: 600, Confidence: 1 - 1e-6, NoiseFactor: factor}})
				if a.Canary == nil || math.Abs(a.Canary.Claimed-a.Epsilon) > 1e-4*a.Epsilon ||
					a.Canary.Holds() != (factor == 1) || len(a.Problems) > 0 == (factor == 1) {
					t.Errorf("with %g of the noise the game has %+v, the ledger ε = %g; %q", factor, a.Canary,
						a.Epsilon, a.Problems)
				}
			}
		})
	}
}
