package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/fedsim"
	"popri/fedsim/audit"
	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/rounds"
	"popri/model/tokenizer"
	"popri/run/auditing"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/scoring/ensemble"
	"popri/testkit/testmodel"
	"popri/testkit/testworld"
)

// voting is a run of Hot PATE with enough budget that the noise is far below the number of teachers.
func voting(t *testing.T) configs.Config {
	c := testworld.Shared(t).Config
	c.Method, c.Trainer.Rounds, c.Privacy.Epsilon = "hot_pate", 2, 2000
	c.Generate.MaxNewTokens = 10
	return c
}

// votes are the releases of a round's parts, in order.
func votes(t *testing.T, dir string, round int) (out []*release.Release) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(rundir.Round(dir, round), "release-*.bin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		r, err := release.Read(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// TestHotPATERun: texts are the tokens of the releases, each vote is charged, and report, audit and game cover them.
func TestHotPATERun(t *testing.T) {
	c := voting(t)
	testworld.Set(&c, "hot_pate.on_failure=stop")
	s, dir := trainedSession(t, c)
	tok := testmodel.Tokenizer(t, c.Model.Path)
	product := samplesIn(t, filepath.Join(dir, rundir.Synthetic))
	charges, at := 0, 0
	for round := 1; round <= 2; round++ {
		ids := make([][]int32, s.releases()/(c.Trainer.Rounds*c.Generate.MaxNewTokens)) // of each text
		for _, r := range votes(t, dir, round) {
			if charges++; len(r.Sum) != 2 || !r.Chosen || r.Clients != 30 {
				t.Fatalf("%+v releases %v", r, r.Sum)
			}
			text := (r.Part - 1) / c.Generate.MaxNewTokens
			ids[text] = append(ids[text], int32(r.Sum[0]))
		}
		var texts []string
		for _, tokens := range ids {
			texts = append(texts, decoded(tok, tokens))
		}
		for _, want := range texts {
			if want == "" {
				continue
			}
			if at >= len(product) || product[at].Text != want {
				t.Fatalf("round %d: the synthetic set %+v lacks %q", round, product, want)
			}
			at++
		}
	}
	if at != len(product) || at == 0 {
		t.Errorf("%d texts in the synthetic set, %d of votes", len(product), at)
	}
	budget, entries := testworld.Charges(t, dir)
	spent, err := ledger.Spent(budget, entries)
	if err != nil || len(entries) != charges || charges > s.releases() || spent > budget.Epsilon {
		t.Errorf("%d charges, %d releases, %d planned, ε = %g (%v)", len(entries), charges, s.releases(), spent, err)
	}
	for i, e := range entries {
		if !e.Chosen || e.Part == 0 || e.Sigma != s.Sigma || e.Sensitivity < 1 || e.Sensitivity > 1.001 {
			t.Fatalf("charge %d is %+v", i, e)
		}
	}
	figures, err := rounds.ReadMetrics(dir)
	if err != nil || len(figures) != 2 || figures[0].Values["voted"] < .5 {
		t.Errorf("%+v (%v)", figures, err)
	}
	r, err := audit.Run(dir, audit.Options{Expect: auditing.Expected})
	if err != nil || !r.Sound() || r.Releases != charges {
		t.Errorf("the audit finds %q (%v), %d releases", r.Problems, err, r.Releases)
	}
	page, err := reporting.Of(dir)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(append(page.Privacy.Statement, page.Notes...), " ")
	for _, want := range []string{"a choice", "releases asked every client", "Target Charging", "abstains",
		"with its noised count"} {
		if !strings.Contains(words, want) {
			t.Errorf("the report does not say %q: %s", want, words)
		}
	}
	if _, err := s.Evaluate(t.Context(), evaluator.Options{}); err != nil {
		t.Error(err)
	}
	// A release that is taken away, or put in another's place, is found.
	first, second := filepath.Join(rundir.Round(dir, 1), "release-00001.bin"), filepath.Join(rundir.Round(dir, 1),
		"release-00002.bin")
	if err := os.Rename(first, second); err != nil {
		t.Fatal(err)
	}
	if r, err = audit.Run(dir, audit.Options{Expect: auditing.Expected}); err != nil || r.Sound() {
		t.Errorf("releases were exchanged: %v", err)
	}
}

func decoded(tok *tokenizer.Tokenizer, ids []int32) string {
	for i, id := range ids {
		if id < 0 {
			ids = ids[:i]
			break
		}
	}
	return strings.Join(strings.Fields(tok.Decode(ids, true)), " ")
}

func (s *Session) releases() int {
	return methods.Of(s.Config).Releases(s.Config)
}

// TestHotPATEInterrupted: a run that is stopped between two votes ends with the same texts, whatever follows a failure.
func TestHotPATEInterrupted(t *testing.T) {
	for _, failure := range []string{"base", "repeat"} {
		c := voting(t)
		testworld.Set(&c, "hot_pate.on_failure="+failure, "hot_pate.ensemble=heterogeneous", "hot_pate.teachers=10")
		c.Privacy.Epsilon = 60
		want := trained(t, c)
		failed := 0
		for _, r := range votes(t, want, 1) {
			if r.Sum[0] == ensemble.None {
				failed++
			}
			if r.Bound < 1.41 {
				t.Errorf("teachers of three clients have the bound %g", r.Bound)
			}
		}
		t.Logf("%s: %d of %d votes have no token", failure, failed, len(votes(t, want, 1)))
		if failed == 0 {
			t.Error("no vote fails")
		}
		sameInterrupted(t, c, want, rounds.Stage{Name: rounds.StageCollect, Round: 1},
			rounds.Stage{Name: rounds.StageCollect, Round: 2})
	}
}

// TestHotIsHotter: with shared randomness, more votes give a token than with the teachers' own.
func TestHotIsHotter(t *testing.T) {
	voted := func(coordinated bool) float64 {
		c := voting(t)
		testworld.Set(&c, fmt.Sprint("hot_pate.coordinated=", coordinated), "hot_pate.on_failure=repeat")
		dir := trained(t, c)
		figures, err := rounds.ReadMetrics(dir)
		if err != nil {
			t.Fatal(err)
		}
		return figures[0].Values["voted"] + figures[1].Values["voted"]
	}
	if hot, cold := voted(true), voted(false); !(hot > cold+.3) {
		t.Errorf("votes with a token: %g coordinated, %g independent", hot/2, cold/2)
	}
}

// TestHotPATEGame: the canary game is played on what is released of the votes.
func TestHotPATEGame(t *testing.T) {
	c := voting(t)
	testworld.Set(&c, "hot_pate.texts=1")
	c.Trainer.Rounds, c.Privacy.Epsilon = 1, 8
	a := played(t, trained(t, c), auditing.Options{Game: fedsim.Game{Trials: 400, Confidence: 1 - 1e-6}})
	if a.Canary == nil || !a.Canary.Holds() || len(a.Problems) > 0 || !(a.Canary.LowerBound() > .1) {
		t.Errorf("the game has %+v; %q", a.Canary, a.Problems)
	}
}

// TestHotPATERefuses: what the method cannot do is refused before there is a folder.
func TestHotPATERefuses(t *testing.T) {
	for key, change := range map[string]func(*configs.Config){
		"hot_pate.teachers":   func(c *configs.Config) { testworld.Set(c, "hot_pate.teachers=31") },
		"hot_pate.ensemble":   func(c *configs.Config) { testworld.Set(c, "hot_pate.ensemble=lukewarm") },
		"hot_pate.on_failure": func(c *configs.Config) { testworld.Set(c, "hot_pate.on_failure=guess") },
		"fed.sampling":        func(c *configs.Config) { c.Fed.Sampling, c.Fed.ClientsPerRound = "poisson", 5 },
		"aggregate.least":     func(c *configs.Config) { c.Aggregate.Least = 5 },
		"unsafe_diagnostics":  func(c *configs.Config) { c.Privacy.UnsafeDiagnostics = true },
		"hot_pate.texts":      func(c *configs.Config) { testworld.Set(c, "hot_pate.texts=1048576") },
	} {
		c := voting(t)
		change(&c)
		refuses(t, c, key)
	}
}
