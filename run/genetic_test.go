package run

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/fedsim"
	"popri/fedsim/release"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/genetic"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/run/auditing"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/testkit/testworld"
)

// evolvingEmbeddings is a run of genetic EDA with next to no noise.
func evolvingEmbeddings(t *testing.T) configs.Config {
	c := testworld.Shared(t).Config
	c.Method, c.Trainer.Rounds, c.Privacy.Epsilon = "genetic_eda", 3, 500
	return c
}

func selection(t *testing.T, dir string, round int) []genetic.Row {
	t.Helper()
	return rowsIn[genetic.Row](t, filepath.Join(rundir.Round(dir, round), rundir.Selection))
}

// TestGeneticRun: selections are charged as such, the synthetic set has the parents' texts, and report, audit and game cover
// the run.
func TestGeneticRun(t *testing.T) {
	for _, decoder := range []string{"lookup", "prompt"} {
		c := evolvingEmbeddings(t)
		testworld.Set(&c, "genetic_eda.decoder="+decoder)
		if decoder == "lookup" {
			c.Data.Private = sailors(t)
		}
		s, dir := trainedSession(t, c)
		budget, entries := testworld.Charges(t, dir)
		spent, err := ledger.Spent(budget, entries)
		if err != nil || len(entries) != 3 || spent > budget.Epsilon || spent < .99*budget.Epsilon ||
			budget.Mechanism != "gumbel" {
			t.Fatalf("%d charges, ε = %g of %g (%v)", len(entries), spent, budget.Epsilon, err)
		}
		for i, e := range entries {
			if e.Mechanism != accountant.Gumbel || e.Picks != 6 || e.Slack != budget.Delta/6 || e.Sigma != s.Sigma {
				t.Errorf("charge %d is %+v", i, e)
			}
		}
		want := map[string]bool{}
		for round := 1; round <= 3; round++ {
			r, err := release.Read(filepath.Join(rundir.Round(dir, round), release.File))
			if err != nil || len(r.Sum) == 0 || len(r.Sum) > 6 || !r.Chosen {
				t.Fatalf("round %d releases %+v (%v)", round, r, err)
			}
			for i, row := range selection(t, dir, round) {
				if row.Place != int64(r.Sum[i]) {
					t.Errorf("round %d: individual %d is %d, released %g", round, i, row.Place, r.Sum[i])
				}
				if row.Kept {
					want[row.Text] = true
				}
			}
		}
		product := samplesIn(t, filepath.Join(dir, rundir.Synthetic))
		if len(product) != len(want) {
			t.Errorf("%d texts in the synthetic set, %d of the parents", len(product), len(want))
		}
		boats := 0
		for _, row := range product {
			if !want[row.Text] {
				t.Errorf("%q is no parent's text", row.Text)
			}
			if strings.HasPrefix(row.Text, "the red boat") {
				boats++
			}
		}
		if decoder == "lookup" && 2*boats < len(product) { // one of six subjects, all the clients'
			t.Errorf("%d of %d texts have the clients' subject", boats, len(product))
		}
		figures, err := rounds.ReadMetrics(dir)
		if err != nil || len(figures) != 3 || figures[1].Values["population"] != 120 ||
			figures[0].Values["perplexity"] == 0 || figures[0].Values["wasserstein"] <= 0 {
			t.Errorf("%+v (%v)", figures, err)
		}
		if r := sound(t, dir, 3); r.Decides != "rdp" {
			t.Errorf("the audit: %s decides", r.Decides)
		}
		page, err := reporting.Of(dir)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Join(append(page.Privacy.Statement, page.Notes...), " ")
		for _, want := range []string{"3 selections of the largest counts", "Gumbel noise", "must be trusted",
			"inverter", "LimitedDomain"} {
			if !strings.Contains(words, want) {
				t.Errorf("the report does not say %q: %s", want, words)
			}
		}
		if decoder == "prompt" {
			if _, err := s.Evaluate(t.Context(), evaluator.Options{}); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestGeneticInterrupted: a run that is stopped in several places ends with the same bytes, with both decoders and both
// selections.
func TestGeneticInterrupted(t *testing.T) {
	for _, how := range [][2]string{{"lookup", "limited_domain"}, {"prompt", "gaussian"}} {
		c := evolvingEmbeddings(t)
		testworld.Set(&c, "genetic_eda.decoder="+how[0], "genetic_eda.selection="+how[1])
		want := trained(t, c)
		if len(selection(t, want, 3)) == 0 {
			t.Errorf("%v: nothing is selected in round 3", how)
		}
		sameInterrupted(t, c, want, rounds.Stage{Name: "generate", Round: 1},
			rounds.Stage{Name: rounds.StageCollect, Round: 2}, rounds.Stage{Name: "decode", Round: 2})
	}
}

// TestEmptySelectionEnds: a selection of nothing is charged and ends the rounds, whether the run is interrupted there
// or not; the synthetic set has no text then.
func TestEmptySelectionEnds(t *testing.T) {
	c := evolvingEmbeddings(t)
	c.Privacy.Epsilon = 1
	dir := trained(t, c)
	_, entries := testworld.Charges(t, dir)
	figures, err := rounds.ReadMetrics(dir)
	if err != nil || len(entries) != 1 || len(figures) != 1 || len(selection(t, dir, 1)) != 0 {
		t.Errorf("%d charges, %d rounds (%v)", len(entries), len(figures), err)
	}
	if err := train(t.Context(), Options{Dir: dir, Resume: true}); err != nil {
		t.Error(err)
	}
	if _, again := testworld.Charges(t, dir); len(again) != 1 {
		t.Errorf("gone on with, the run has %d charges", len(again))
	}
	if product, err := rows.Read[sampling.Row](filepath.Join(dir, rundir.Synthetic)); err != nil || len(product) != 0 {
		t.Errorf("%d texts (%v)", len(product), err)
	}
	r, err := reporting.Of(dir)
	notes := strings.Join(r.Notes, " ")
	if err != nil || r.Interrupted != "" || !strings.Contains(notes, "above the noisy threshold") {
		t.Errorf("%v: the report calls the run interrupted %q, and notes %s", err, r.Interrupted, notes)
	}
}

// TestGeneticGame: the canary game is played on selections with the run's noise.
func TestGeneticGame(t *testing.T) {
	c := evolvingEmbeddings(t)
	c.Privacy.Epsilon, c.Trainer.Rounds = 8, 1
	a := played(t, trained(t, c), auditing.Options{Game: fedsim.Game{Trials: 400, Confidence: 1 - 1e-6}})
	if a.Canary == nil || !a.Canary.Holds() || a.Canary.Claimed > 8 || a.Canary.Claimed < 7.9 ||
		len(a.Problems) > 0 {
		t.Errorf("the game has %+v; %q", a.Canary, a.Problems)
	}
}

// TestGeneticRefuses: selections need the exact counts in one place; what cannot give them is refused before there is a
// folder.
func TestGeneticRefuses(t *testing.T) {
	for key, change := range map[string]func(*configs.Config){
		"aggregate.least":        func(c *configs.Config) { c.Aggregate.Least = 5 },
		"fed.clients":            func(c *configs.Config) { c.Fed.Clients, c.Data.Private = 30, configs.None },
		"fed.sampling":           func(c *configs.Config) { c.Fed.Sampling, c.Fed.ClientsPerRound = "poisson", 5 },
		"unsafe_diagnostics":     func(c *configs.Config) { c.Privacy.UnsafeDiagnostics = true },
		"genetic_eda.parents":    func(c *configs.Config) { testworld.Set(c, "genetic_eda.parents=0") },
		"genetic_eda.population": func(c *configs.Config) { testworld.Set(c, "genetic_eda.population=1000") },
		"genetic_eda.decoder":    func(c *configs.Config) { testworld.Set(c, "genetic_eda.decoder=inverter") },
	} {
		c := evolvingEmbeddings(t)
		change(&c)
		refuses(t, c, key)
	}
}
