package run

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/fedsim/audit"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/evolution"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/run/auditing"
	"popri/testkit/golden"
	"popri/testkit/testworld"
)

// evolving is a configuration of Private Evolution in the tests' world.
func evolving(t *testing.T) configs.Config {
	c := testworld.Shared(t).Config
	c.Method = evolution.Description.Name
	return c
}

// sailors writes clients whose texts are all about one of the public texts' six subjects.
func sailors(t *testing.T) string {
	type row struct {
		Client string `parquet:"client_id"`
		Split  string `parquet:"split"`
		Text   string `parquet:"text"`
	}
	var all []row
	for i := range 40 {
		split := "train"
		if i >= 30 {
			split = "validation"
		}
		for _, does := range []string{"sees the hat", "carries the river", "turns a long rope"} {
			all = append(all, row{fmt.Sprint("client-", i), split, "the red boat " + does + " near the harbour wall."})
		}
	}
	path := filepath.Join(t.TempDir(), "sailors.parquet")
	if err := rows.Write(path, all); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPopulationMovesToClients: with little noise, the subject that all clients write about becomes frequent under
// PrE-Text.
func TestPopulationMovesToClients(t *testing.T) {
	for _, variant := range []string{evolution.PreText, evolution.AugPE} {
		t.Run(variant, func(t *testing.T) {
			c := evolving(t)
			testworld.Set(&c, "private_evolution.variant="+variant, "private_evolution.population=40")
			c.Trainer.Rounds, c.Privacy.Epsilon, c.Data.Private = 5, 1e4, sailors(t)
			dir := trained(t, c)
			first := rowsIn[evolution.Row](t, filepath.Join(rundir.Round(dir, 1), evolution.SelectionFile))
			last := rowsIn[evolution.Row](t, filepath.Join(rundir.Round(dir, 5), evolution.SelectionFile))
			share := func(list []evolution.Row) float64 {
				n := 0.0
				for _, r := range list {
					if strings.HasPrefix(r.Text, "the red boat") {
						n++
					}
				}
				return n / float64(len(list))
			}
			// Aug-PE asks the model for a text like another one, which the tests' model does not do.
			moves := variant == evolution.PreText
			if before, after := share(first), share(last); moves && after < before+0.3 {
				t.Errorf("the share of the clients' subject was %.2f in the first population and is %.2f in the last",
					before, after)
			}
			figures, err := rounds.ReadMetrics(dir)
			if err != nil || len(figures) != 5 {
				t.Fatal(err, len(figures))
			}
			if a, b := figures[0].Values["fid"], figures[4].Values["fid"]; moves && !(b < a) {
				t.Errorf("the distance to the clients' domain was %g and is %g", a, b)
			}
			if g := figures[4].Values["generation"]; moves && !(g > 1) {
				t.Errorf("the selected samples of round 5 are of generation %g", g)
			}
			product, err := rows.Read[sampling.Row](filepath.Join(dir, rundir.Synthetic))
			if err != nil || len(product) != c.Synthetic.Texts {
				t.Errorf("%v: %d texts, want %d", err, len(product), c.Synthetic.Texts)
			}
		})
	}
}

// TestMoreNoise: the ledger is charged for the noise that is drawn, not for that which the budget needs.
func TestMoreNoise(t *testing.T) {
	spend := func(noise float64) (sigma, epsilon float64) {
		c := evolving(t)
		c.Privacy.NoiseMultiplier = noise
		s, dir := trainedSession(t, c)
		budget, entries := testworld.Charges(t, dir)
		for _, e := range entries {
			if e.Sigma != s.Sigma || len(entries) != c.Trainer.Rounds {
				t.Errorf("of %d charges, one is for %g, the noise is %g", len(entries), e.Sigma, s.Sigma)
			}
		}
		rounds, free, err := auditing.RoundVectors(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer free()
		r, err := audit.Run(dir, audit.Options{Rounds: rounds, Expect: auditing.Expected})
		if err != nil || !r.Sound() || r.Releases != len(entries) {
			t.Errorf("the audit: %v, %+v", err, r)
		}
		if len(r.Noise) != len(entries) || len(r.NoiseUntested) > 0 {
			t.Errorf("the noise of votes: %v, %v", r.Noise, r.NoiseUntested)
		}
		if !(r.Epsilon <= budget.Epsilon) {
			t.Errorf("ε is %g of %g", r.Epsilon, budget.Epsilon)
		}
		return s.Sigma, r.Epsilon
	}
	sigma, epsilon := spend(0)
	more, less := spend(2.179 * sigma)
	if math.Abs(more/sigma-2.179) > 1e-9 || !(less < epsilon/2) {
		t.Errorf("noise %g costs ε = %g, noise %g costs %g", sigma, epsilon, more, less)
	}
}

// TestEvolutionAsPublished: PrE-Text with a masked model, and Aug-PE by rephrasing and by blanks, which gives the
// selected texts. A run that is stopped where the texts of a round are written or chosen gives the same.
func TestEvolutionAsPublished(t *testing.T) {
	masked := filepath.Join(golden.Folder(t, "masked"), "roberta")
	for name, set := range map[string][]string{
		"masked":   {"masked_model=" + masked},
		"rephrase": {"variant=aug_pe", "variations=2"},
		"blank":    {"variant=aug_pe", "variations=2", "variation=blank"},
	} {
		t.Run(name, func(t *testing.T) {
			c := evolving(t)
			c.Data.MaxTokens = 30
			for _, assignment := range append(set, "population=12") {
				testworld.Set(&c, "private_evolution."+assignment)
			}
			want := trained(t, c)
			stages := []rounds.Stage{{Round: 1, Name: "generate"}, {Round: 2, Name: "generate"}}
			if name == "masked" {
				stages = append(stages, rounds.Stage{Round: 2, Name: "embed"})
			}
			sameInterrupted(t, c, want, stages...)
			product := samplesIn(t, filepath.Join(want, rundir.Synthetic))
			if name == "masked" {
				last, err := rows.Read[evolution.Row](filepath.Join(rundir.Round(want, 2), evolution.SelectionFile))
				if err != nil || len(product) != c.Synthetic.Texts {
					t.Fatal(err, len(product))
				}
				changed := 0
				for _, r := range last {
					if r.Kind == string(evolution.Fill) {
						changed++
					}
				}
				if changed == 0 {
					t.Error("the masked model varied no text")
				}
				return
			}
			last := rowsIn[evolution.Row](t, filepath.Join(rundir.Round(want, 2), evolution.SelectionFile))
			var selected []string
			public := 0
			for _, r := range last {
				for range r.Copies {
					selected = append(selected, r.Text)
					if r.Generation == 0 {
						public++
					}
				}
			}
			for _, r := range product {
				if r.Finish == sampling.Public {
					public--
				}
			}
			if public != 0 {
				t.Errorf("%d public texts more were selected than are marked as such", public)
			}
			if !slices.Equal(sampling.Texts(product), selected) || len(selected) != 12 {
				t.Errorf("the synthetic set is %q, round 2 selected %q", sampling.Texts(product), selected)
			}
		})
	}
}
