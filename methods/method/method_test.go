package method_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/fedsim/release"
	"popri/internal/numeric"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/run"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/scoring"
	"popri/show/series"
	"popri/testkit/testworld"
)

// Settings says how "picking" works.
type Settings struct {
	// Kept is the number of public texts that are the synthetic set. Default 20.
	Kept int `yaml:"kept" range:"[1, 1000]"`
}

var settings = configs.Register("picking", Settings{Kept: 20}, nil)

// picking is a whole method: the clients score all public texts in each round, and those with the highest noised scores
// are the synthetic set. The releases of the rounds are its whole state.
type picking struct {
	method.Env
	scores []float64
}

var description = method.Description{
	Method: configs.Method{Name: "picking", Check: func(r *configs.Report, c configs.Config) {
		r.Refuse(c, "where method is \"picking\": texts have no label", "generate.by_label")
	}},
	Clients: method.Clients{
		Query: func(c configs.Config) (string, float64) {
			return scoring.CosineName(scoring.None), c.Scoring.ClipNorm
		},
		Traffic: func(c configs.Config) method.Traffic { return method.Traffic{Sent: c.Trainer.Rounds} },
	},
	Words: method.Words{Title: "Picking", About: "picks public texts", Product: "picked by the clients' noised scores",
		Work: func(c configs.Config) string { return fmt.Sprintf("the best %d public texts", settings.Of(c).Kept) }},
	New:    func(e method.Env) (rounds.Method, error) { return &picking{Env: e}, nil },
	Series: series.Set{Columns: []series.Series{{Key: "best", Name: "Best score", Format: series.Number, Decimals: 3}}},
	Cost:   func(configs.Config) method.Cost { return method.Cost{} },
}

func (m *picking) Round(ctx context.Context, r *rounds.Round) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	vectors, err := m.Encoder.Encode(datasets.Strings(m.Public.Prompts))
	if err != nil {
		return err
	}
	q, err := scoring.NewCosine(vectors, scoring.Options{Normalize: scoring.None, Clip: m.Config.Scoring.ClipNorm},
		m.Public.Hash())
	if err != nil {
		return err
	}
	answer, err := r.Collect(q)
	if err == nil {
		m.add(answer)
		r.Figures.Set("best", slices.Max(m.scores)/float64(r.Number*answer.Clients))
	}
	return err
}

func (m *picking) add(answer *release.Release) {
	m.scores = append(m.scores, make([]float64, len(answer.Sum)-len(m.scores))...)
	for i, x := range answer.Sum {
		m.scores[i] += x
	}
}

func (m *picking) Restore(round int) error {
	m.scores = nil
	for n := 1; n <= round; n++ {
		answer, err := release.Read(filepath.Join(rundir.Round(m.Dir, n), release.File))
		if err != nil {
			return err
		}
		m.add(answer)
	}
	return nil
}

func (m *picking) Product(_ context.Context, _ rounds.Stage, file string) (out []sampling.Row, err error) {
	order := numeric.SortedIndices(len(m.scores), func(a, b int) int { return cmp.Compare(m.scores[b], m.scores[a]) })
	for _, i := range order[:min(len(order), settings.Of(m.Config).Kept)] {
		out = append(out, sampling.Row{Prompt: int64(i), Text: m.Public.Prompts[i].Text, Finish: sampling.Public})
	}
	return out, rows.Write(file, out)
}

func (m *picking) Prune(int) error { return nil }
func (m *picking) Close()          {}

func TestMain(m *testing.M) {
	methods.Add(description)
	os.Exit(testworld.Main(m))
}

// A method is a folder and a line: what is above runs, is gone on with, evaluated, reported and checked.
func TestMethodOfOneFile(t *testing.T) {
	w := testworld.Shared(t)
	c, dir := w.Config, t.TempDir()
	c.Method, c.Trainer.Rounds, c.Privacy.Epsilon = "picking", 3, 500
	testworld.Set(&c, "picking.kept=7")
	ctx, stop := context.WithCancel(t.Context())
	o := run.Options{Config: c, Dir: dir, Events: rounds.Events{StageBegin: func(s rounds.Stage) {
		if s.Round == 2 {
			stop()
		}
	}}}
	first, err := run.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Train(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	first.Close()
	s, err := run.Open(t.Context(), run.Options{Dir: dir, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	product, err := rows.Read[sampling.Row](filepath.Join(dir, rundir.Synthetic))
	if err != nil || len(product) != 7 {
		t.Fatalf("%d texts (%v)", len(product), err)
	}
	if _, entries := testworld.Charges(t, dir); len(entries) != 3 {
		t.Errorf("%d charges", len(entries))
	}
	e, err := s.Evaluate(t.Context(), evaluator.Options{})
	if err != nil || e.Result("picking") == nil {
		t.Fatalf("%+v (%v)", e, err)
	}
	if _, err := reporting.Write(dir); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, rundir.Report))
	if err != nil || !strings.Contains(string(page), "Best score") {
		t.Errorf("the report does not tell of the method (%v)", err)
	}
	for set, want := range map[string]string{"picking.kept=0": "picking.kept: is 0, must be 1 to 1000",
		"picking.kep=1": "did you mean picking.kept?", "generate.by_label=true": "texts have no label"} {
		if _, err := configs.Load(configs.LoadOptions{Set: []string{"method=picking", set}}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", set, err, want)
		}
	}
}
