package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/datasets/clients"
	"popri/fedsim"
	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
	"popri/testkit/testfile"
)

const trainClients = 30

func encoder(t *testing.T) embedding.Encoder {
	t.Helper()
	e, err := embedding.FitHashing([]string{"word1 common", "word2 other"}, embedding.HashingConfig{Dim: 16})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// embedded is the population as the federation holds it.
func embedded(t *testing.T, e embedding.Encoder) query.Clients {
	t.Helper()
	c, err := fedsim.Embed(t.Context(), population().Split(clients.Train), e, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func question(t *testing.T, samples embedding.Matrix, o scoring.Options) query.Query {
	t.Helper()
	q, err := scoring.NewCosine(samples, o, fmt.Sprintf("%d samples", samples.Rows))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func population() *clients.Population {
	p := &clients.Population{Name: "test", Unit: "a client is a test"}
	for i := range trainClients {
		p.Clients = append(p.Clients, clients.Client{ID: fmt.Sprint(i), Split: clients.Train,
			Texts: []string{fmt.Sprintf("word%d word%d common", i, i/3)}})
	}
	return p
}

// vectors are the samples of every round.
func vectors(t *testing.T) embedding.Matrix {
	t.Helper()
	var texts []string
	for i := range 80 {
		texts = append(texts, fmt.Sprintf("word%d common else%d", i, i%7))
	}
	m, err := encoder(t).Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// made makes a run's folder of some rounds, as the trainer leaves it.
func made(t *testing.T, rounds int, sampling ledger.Sampling, continues string) string {
	t.Helper()
	dir := t.TempDir()
	b := ledger.Budget{Epsilon: 6, Delta: 1e-3, Mechanism: "gaussian", Unit: "a client is a test",
		Relation: accountant.ZeroOut, Data: "d", Clients: trainClients}
	each := ledger.Entry{Sampling: sampling}
	g, asked := fedsim.Gaussian{Sampling: sampling}, scoring.Options{Normalize: scoring.Standardized, Clip: 1}
	switch sampling {
	case ledger.Poisson:
		g.Cohort, each.SamplingRate = 10, 10.0/trainClients
	case ledger.Fixed:
		b.Relation = accountant.Replace
		g.Cohort, each.Cohort = 10, 10
	}
	c := configs.Default()
	c.Privacy.Epsilon, c.Privacy.Delta = b.Epsilon, b.Delta
	c.Scoring.Normalize, c.Scoring.ClipNorm = string(asked.Normalize), asked.Clip
	c.Fed.Sampling, c.Fed.ClientsPerRound = string(sampling), g.Cohort
	write(t, filepath.Join(dir, rundir.Config), c.YAML())
	var l *ledger.Ledger
	var err error
	if continues == "" {
		l, err = ledger.Create(filepath.Join(dir, rundir.Ledger), b)
	} else {
		l, err = ledger.Continue(filepath.Join(continues, rundir.Ledger), filepath.Join(dir, rundir.Ledger), b)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	plan := accountant.Plan{Each: each.Event(b), Before: ledger.Events(b, l.Entries())}
	plan.Each.Count = rounds
	target := b.Epsilon
	if continues == "" {
		target /= 2 // some is left for a run that continues
	}
	if g.Sigma, err = plan.Sigma(ledger.Accountant(b, []ledger.Entry{each}), target, b.Delta); err != nil {
		t.Fatal(err)
	}
	f, err := fedsim.New(fedsim.Embedded{Clients: embedded(t, encoder(t))}, g, fedsim.Config{Ledger: l})
	if err != nil {
		t.Fatal(err)
	}
	samples := vectors(t)
	for round := 1; round <= rounds; round++ {
		folder := testfile.Folder(t, filepath.Join(dir, "rounds", fmt.Sprintf("%04d", round)))
		if _, err := f.Collect(release.Request{Round: round, Query: question(t, samples, asked),
			Dir: folder}); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "pairs.parquet"), []byte("x"))
	}
	return dir
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	testfile.Write(t, path, b)
}

// cosine is what these runs ask.
func cosine(c configs.Config) Expected {
	return Expected{Query: scoring.CosineName(scoring.Normalize(c.Scoring.Normalize)), Bound: c.Scoring.ClipNorm}
}

func audited(t *testing.T, dir string) *Report {
	t.Helper()
	r, err := Run(dir, Options{Expect: cosine})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSoundRuns(t *testing.T) {
	for sampling, decides := range map[ledger.Sampling]string{ledger.Full: "exact", ledger.Poisson: "pld",
		ledger.Fixed: "pld"} {
		r := audited(t, made(t, 3, sampling, ""))
		if !r.Sound() || len(r.Warnings) > 0 || r.Releases != 3 || r.Decides != decides || r.Epsilon > 3 ||
			r.Epsilon < 2.99 {
			t.Errorf("%s: %+v", sampling, r)
		}
		for _, f := range r.Spent {
			if f.Unknown == "" && f.Epsilon < r.Epsilon*(1-1e-4) {
				t.Errorf("%s: %s shows %g, the ledger goes by %g", sampling, f.Name, f.Epsilon, r.Epsilon)
			}
		}
		words, sums := strings.Join(r.Statement(), " "), "3 sums of 30 clients' vectors were released"
		if sampling != ledger.Full {
			sums = "3 sums of the vectors of clients drawn from 30 were released"
		}
		for _, want := range []string{sums, "δ = 0.001", "a client is a test", "one client", "The budget is ε = 6"} {
			if !strings.Contains(words, want) {
				t.Errorf("%s: %q lacks %q", sampling, words, want)
			}
		}
	}
}

func TestContinuedRuns(t *testing.T) {
	first := made(t, 2, ledger.Full, "")
	second := made(t, 2, ledger.Full, first)
	r := audited(t, second)
	if !r.Sound() || r.Releases != 2 || r.Epsilon > 6 || r.Epsilon < 5.99 ||
		!strings.Contains(strings.Join(r.Statement(), " "), "2 releases of earlier runs") {
		t.Errorf("%+v: %q", r, r.Statement())
	}
	r = audited(t, first)
	if !r.Sound() || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "continued") {
		t.Errorf("the continued run: %+v", r)
	}
}

// TestRunWithoutConfiguration: a run whose configuration was taken away is no ledger alone, and what has releases was
// not measured.
func TestRunWithoutConfiguration(t *testing.T) {
	dir := made(t, 2, ledger.Full, "")
	for _, step := range []struct {
		without    string
		problems   int
		unmeasured bool
	}{{rundir.Config, 1, true}, {"rounds/0001/pairs.parquet", 1, true}, {"rounds/0002/pairs.parquet", 0, true},
		{rundir.Rounds, 0, false}} {
		if err := os.RemoveAll(filepath.Join(dir, step.without)); err != nil {
			t.Fatal(err)
		}
		r, err := Run(dir, Options{Alone: true})
		if err != nil || len(r.Problems) != step.problems || r.Unmeasured != step.unmeasured {
			t.Errorf("without %s: %q, unmeasured %v (%v)", step.without, r.Problems, r.Unmeasured, err)
		}
	}
	write(t, filepath.Join(dir, rundir.Inputs), []byte("{}"))
	if r, err := Run(dir, Options{Alone: true}); err != nil || r.Sound() {
		t.Errorf("with %s: %+v (%v)", rundir.Inputs, r, err)
	}
}

// Each thing that does not fit is found and named.
func TestProblems(t *testing.T) {
	released := func(dir string, round int) string {
		return filepath.Join(dir, "rounds", fmt.Sprintf("%04d", round), release.File)
	}
	for name, c := range map[string]struct {
		spoil func(dir string)
		want  string
	}{
		"a changed value": {func(dir string) {
			b, _ := os.ReadFile(released(dir, 1))
			b[len(b)-1] ^= 1
			write(t, released(dir, 1), b)
		}, "has no charge"},
		"a release of nobody's": {func(dir string) {
			other := made(t, 1, ledger.Full, "")
			b, _ := os.ReadFile(released(other, 1))
			write(t, released(dir, 2), b)
		}, "has no charge"},
		"a release of another round": {func(dir string) {
			b, _ := os.ReadFile(released(dir, 1))
			write(t, released(dir, 2), b)
		}, "is the release of round 1, in the folder"},
		"half a release": {func(dir string) {
			b, _ := os.ReadFile(released(dir, 1))
			write(t, released(dir, 1), b[:len(b)/2])
		}, "not a release file"},
		"an uncharged draw": {func(dir string) {
			other := made(t, 1, ledger.Full, "")
			b, _ := os.ReadFile(released(other, 1))
			write(t, filepath.Join(filepath.Dir(released(dir, 1)), release.PendingFile), b)
		}, "was drawn and not charged"},
		"no release": {func(dir string) { os.Remove(released(dir, 2)) }, "not on disk"},
		"a cut ledger": {func(dir string) {
			path := filepath.Join(dir, rundir.Ledger)
			b, _ := os.ReadFile(path)
			write(t, path, b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1])
		}, "cut short"},
		"an edited ledger": {func(dir string) {
			path := filepath.Join(dir, rundir.Ledger)
			b, _ := os.ReadFile(path)
			write(t, path, bytes.Replace(b, []byte(`"round":2`), []byte(`"round":1`), 1))
		}, "line 3"},
	} {
		dir := made(t, 2, ledger.Full, "")
		c.spoil(dir)
		r := audited(t, dir)
		if r.Sound() || !strings.Contains(strings.Join(r.Problems, "\n"), c.want) {
			t.Errorf("%s: problems %q, want %q", name, r.Problems, c.want)
		}
	}
	if _, err := Run(t.TempDir(), Options{}); err == nil {
		t.Error("an empty folder is a run")
	}
}

func TestTotalsAndGridAreChecked(t *testing.T) {
	r := audited(t, made(t, 2, ledger.Full, ""))
	r.Record.Totals[1] *= 1.01
	if err := r.recompute(); err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "Charge 2 says") {
		t.Errorf("a wrong total: %q (%v)", r.Problems, err)
	}
	r.Problems, r.Record.Totals = nil, nil
	r.Record.Budget.Epsilon = 0.1
	if err := r.recompute(); err != nil || len(r.Problems) != 1 ||
		!strings.Contains(r.Problems[0], "more than the budget") {
		t.Errorf("too much spent: %q (%v)", r.Problems, err)
	}
	r.Problems = nil
	e := r.Record.Entries[0]
	made := &release.Release{Round: e.Round, Query: e.Query, Sigma: e.Sigma, Sensitivity: e.Sensitivity,
		Clients: e.Clients, Cohort: e.Cohort, Sampling: e.Sampling, Bound: 1, Step: 0.25,
		Sum: []float64{0.5, 0.3}, Hash: e.ReleaseHash}
	r.compare("x", made, e, r.Record.Budget)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "is not on the grid") {
		t.Errorf("off the grid: %q", r.Problems)
	}
	r.Problems = nil
	made.Sum, made.Bound, made.Seeded = nil, 2, true
	r.compare("x", made, e, r.Record.Budget)
	if len(r.Problems) != 2 {
		t.Errorf("a larger norm and seeded noise: %q", r.Problems)
	}
}

// TestChargesAreCompared: whatever decides about a release's cost must be what the ledger charged.
func TestChargesAreCompared(t *testing.T) {
	found := &release.Release{Round: 2, Query: "mean", Sigma: 1, Sensitivity: 1, Sampling: ledger.Poisson, Cohort: 10,
		Clients: 10, Tree: 1, Leaf: 2, Leaves: 6}
	for i, change := range []func(*ledger.Entry){func(e *ledger.Entry) { e.Inherited = true }, // which costs nothing
		func(e *ledger.Entry) { e.Tree++ }, func(e *ledger.Entry) { e.Leaf++ }, func(e *ledger.Entry) { e.Leaves++ },
		func(e *ledger.Entry) { e.Mechanism = accountant.Gumbel }, func(e *ledger.Entry) { e.SamplingRate /= 2 }} {
		e, r := found.Charge(trainClients), &Report{}
		change(&e)
		if r.compare("x", found, e, ledger.Budget{Clients: trainClients}); r.Sound() != (i == 0) {
			t.Errorf("change %d: %q", i, r.Problems)
		}
	}
}

// What the guarantee does not cover comes from package guarantee, and its last sentence never contradicts it.
func TestWarnings(t *testing.T) {
	dir := made(t, 1, ledger.Full, "")
	testfile.Folder(t, filepath.Join(dir, fedsim.UnsafeFolder))
	r := audited(t, dir)
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "without noise") ||
		!strings.Contains(r.Verdict(), "Not all noise was measured") {
		t.Errorf("%q, %q", r.Warnings, r.Verdict())
	}
	if v := measured(t, dir).Verdict(); v != "Everything fits." {
		t.Errorf("with the noise measured: %q", v)
	}
	r.Facts.Record.Budget.InsecureSeededNoise = true
	if v := r.Verdict(); !strings.Contains(v, "protects nobody") {
		t.Errorf("seeded noise: %q", v)
	}
}
