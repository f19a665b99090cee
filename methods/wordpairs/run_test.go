package wordpairs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/accountant/guarantee"
	"popri/configs"
	"popri/eval/downstream"
	"popri/fedsim/audit"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/model/mixture"
	"popri/run"
	"popri/run/auditing"
	"popri/run/evaluation"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/run/trying"
	"popri/testkit/testworld"
)

func TestMain(m *testing.M) { os.Exit(testworld.Main(m)) }

// opened does a run, which its caller may evaluate.
func opened(t *testing.T, c configs.Config) (*run.Session, string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	s, err := run.Open(t.Context(), run.Options{Config: c, Dir: dir})
	if err != nil {
		return nil, dir, err
	}
	t.Cleanup(s.Close)
	return s, dir, s.Train(t.Context())
}

// TestRun: with little noise, the table lowers the loss on validation clients and the test clients' perplexity; the
// evaluation of the folder by itself says the same. Report, guarantee and audit say what was done.
func TestRun(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Method, c.Trainer.Select, c.Privacy.Epsilon = "word_pairs", "validation", 500
	c.Trainer.Rounds = 5 // there is one
	s, dir, err := opened(t, c)
	if err != nil {
		t.Fatal(err)
	}
	figures, err := rounds.ReadMetrics(dir)
	if err != nil || len(figures) != 1 {
		t.Fatalf("%d rounds (%v)", len(figures), err)
	}
	before, after := figures[0].Get(configs.ValidationLoss), figures[0].Get(configs.ValidationLoss+rounds.After)
	if before == nil || after == nil || !(*after < *before-.05) {
		t.Errorf("loss %v, then %v", before, after)
	}
	e, err := s.Evaluate(t.Context(), evaluator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own, public := e.Result(c.Method), e.Result(downstream.Public)
	if own == nil || !(own.Perplexity < public.Perplexity) || !(own.Accuracy > public.Accuracy) {
		t.Errorf("%+v, ε = 0 has %+v", own, public)
	}
	small := filepath.Join(dir, rundir.Small)
	c.Eval.ReferencePrivate = false
	again, err := evaluator.Texts(t.Context(), c, small, evaluator.TextsOptions{})
	if err != nil || again.Result(evaluation.KeyText).Perplexity != own.Perplexity || again.Result(evaluation.KeyText).Accuracy != own.Accuracy {
		t.Errorf("popri eval of the folder: %+v (%v)", again, err)
	}
	if _, err := reporting.Write(dir); err != nil {
		t.Fatal(err)
	}
	card, err := os.ReadFile(filepath.Join(small, "README.md"))
	if err != nil || !bytes.Contains(card, []byte(mixture.File)) {
		t.Errorf("the card (%v):\n%s", err, card)
	}
	facts, err := guarantee.Read(dir)
	if text := strings.Join(facts.Statement(), " "); err != nil || !strings.Contains(text, "weights of a table") {
		t.Errorf("the guarantee says %s (%v)", text, err)
	}
	if r, err := audit.Run(dir, audit.Options{Expect: auditing.Expected}); err != nil || !r.Sound() || r.Releases != 1 {
		t.Errorf("the audit finds %q (%v)", r.Problems, err)
	}
	if models, err := trying.Open(dir); err != nil {
		t.Error(err)
	} else {
		defer models.Close()
		differ := 0
		for _, text := range []string{"the ", "a ", "we ", "the cat ", "before the "} {
			before, with, err := models.Suggest(text)
			if err != nil {
				t.Error(err)
			}
			if !slices.Equal(before, with) {
				differ++
			}
		}
		if differ == 0 {
			t.Error("the keyboard suggests the same with and without the table")
		}
	}
	// What would leave the table out is refused.
	c.Downstream.Model, c.Privacy.Continues, c.Privacy.Epsilon = small, dir, 1000
	if _, _, err := opened(t, c); !fault.IsUser(err) || !strings.Contains(err.Error(), mixture.File) {
		t.Errorf("a table of a table: %v", err)
	}
}

// TestFurther: after a run that writes text, the clients' pairs are mixed into the small model that was trained on it,
// under one ε.
func TestFurther(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Trainer.Rounds, c.Synthetic.Texts, c.Downstream.Steps, c.Downstream.EvalEvery, c.Privacy.Epsilon = 1, 40, 8, 4, 100
	s, dir, err := opened(t, c)
	if err == nil {
		_, err = s.Evaluate(t.Context(), evaluator.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	c.Method, c.Privacy.Continues, c.Downstream.Model, c.Privacy.Epsilon = "word_pairs", dir, filepath.Join(dir, rundir.Small), 600
	s, further, err := opened(t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !mixture.Has(filepath.Join(further, rundir.Small)) {
		t.Error("there is no table")
	}
	facts, err := guarantee.Read(further)
	if own, inherited := facts.Releases(); err != nil || own != 1 || inherited < 1 || !(facts.Spent > 100 && facts.Spent <= 600) {
		t.Errorf("%d releases and %d inherited, ε = %g (%v)", own, inherited, facts.Spent, err)
	}
}

// TestChosenBySelect: with trainer.select=last, validation clients choose nothing. Noise that hides everything leaves
// the small model alone, if they choose.
func TestChosenBySelect(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Method, c.Trainer.Select, c.Privacy.Epsilon = "word_pairs", "last", 500
	_, dir, err := opened(t, c)
	if err != nil {
		t.Fatal(err)
	}
	figures, err := rounds.ReadMetrics(dir)
	if v := figures[0].Values; err != nil || v["tilt"] != .3 || v["cap"] != .2 || v["kappa"] != 20 {
		t.Errorf("%v (%v)", v, err)
	}
	c.Trainer.Select = "validation"
	testworld.Set(&c, "word_pairs.threshold=100", "privacy.epsilon=5")
	if _, dir, err = opened(t, c); err != nil || mixture.Has(filepath.Join(dir, rundir.Small)) {
		t.Errorf("a table of nothing (%v)", err)
	}
	testworld.Set(&c, "fed.clients=30")
	if _, dir, err = opened(t, c); !fault.IsUser(err) || !strings.Contains(err.Error(), "fed.clients") || rundir.Exists(dir) {
		t.Errorf("clients elsewhere: %v", err)
	}
}
