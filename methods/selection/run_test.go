package selection_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/configs"
	"popri/fedsim/audit"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/selection"
	"popri/methods/target"
	"popri/run"
	"popri/run/auditing"
	"popri/run/reporting"
	"popri/testkit/testworld"
)

func TestMain(m *testing.M) { os.Exit(testworld.Main(m)) }

func train(t *testing.T, c configs.Config) (dir string, texts []string) {
	t.Helper()
	c.Method, dir = selection.Description.Name, t.TempDir()
	s, err := run.Open(t.Context(), run.Options{Config: c, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored, err := rows.Read[sampling.Row](filepath.Join(dir, rundir.Synthetic))
	if err != nil {
		t.Fatal(err)
	}
	return dir, sampling.Texts(stored)
}

// TestSelectsWhatClientsWrite: of the four endings that public texts have, the clients use one. With little noise
// nearly all selected texts have it, and the run asks once, whatever trainer.rounds is.
func TestSelectsWhatClientsWrite(t *testing.T) {
	w := testworld.Make(t)
	c := w.Config
	c.Trainer.Rounds, c.Scoring.Dim = 5, 32
	testworld.Set(&c, "public_selection.texts=20", "public_selection.weights=prior")
	dir, texts := train(t, c)
	shared := 0
	for _, text := range texts {
		if strings.Contains(text, "before the storm") {
			shared++
		}
	}
	if len(texts) != target.AllRows || shared < 4*len(texts)/5 {
		t.Errorf("%d of %d selected texts end as clients' texts do", shared, len(texts))
	}
	rounds, err := rounds.ReadMetrics(dir)
	if err != nil || len(rounds) != 1 || rounds[0].Values["pool"] != 150 || rounds[0].Values["selected"] != 20 {
		t.Errorf("rounds %+v (%v)", rounds, err)
	}
	page, err := reporting.Of(dir)
	if err != nil || page.Interrupted != "" || page.Privacy.Planned != 1 || page.Privacy.Rounds != 1 {
		t.Errorf("the report: %q, %d of %d (%v)", page.Interrupted, page.Privacy.Rounds, page.Privacy.Planned, err)
	}
	r, err := audit.Run(dir, audit.Options{Expect: auditing.Expected})
	if err != nil || !r.Sound() || r.Releases != 1 || len(r.Record.Entries) != 1 {
		t.Errorf("the audit: %q (%v)", r.Problems, err)
	}
}

// TestSelectsAllThereIs: a pool that is smaller than what is asked for is taken whole, in as many rows as are asked for.
func TestSelectsAllThereIs(t *testing.T) {
	w := testworld.Make(t)
	c := w.Config
	testworld.Set(&c, "public_selection.texts=500", "public_selection.weights=prior")
	c.Synthetic.PublicTexts = 300
	c.Scoring.Release = "once"
	dir, texts := train(t, c)
	if chosen, err := target.Read(dir); err != nil || len(chosen) != 150 || len(texts) != 300 {
		t.Errorf("%d texts of a pool of 150 in %d rows (%v)", len(chosen), len(texts), err)
	}
}
