package fedsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/datasets/clients"
	"popri/fedsim/aggregate"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
	"popri/testkit/testfile"
)

// encoder hashes words into unit vectors: enough to tell texts apart.
type encoder struct{ dim int }

func (e encoder) Name() string { return "test" }
func (e encoder) Dim() int     { return e.dim }
func (e encoder) Encode(texts []string) (embedding.Matrix, error) {
	m := embedding.NewMatrix(len(texts), e.dim)
	for i, t := range texts {
		for _, w := range strings.Fields(t) {
			r := rng.New(7, w)
			for j := range e.dim {
				m.Row(i)[j] += float32(r.NormFloat64())
			}
		}
	}
	return scoring.Unit(m), nil
}

func population(n int) *clients.Population {
	r := rng.New(3, "population")
	p := &clients.Population{Name: "test", Unit: "a client is a test"}
	for i := range n {
		c := clients.Client{ID: fmt.Sprint(i), Split: clients.Train}
		for range 1 + r.IntN(4) {
			c.Texts = append(c.Texts, fmt.Sprintf("secret%d common%d word%d", r.IntN(50), r.IntN(3), r.IntN(9)))
		}
		p.Clients = append(p.Clients, c)
	}
	p.Clients = append(p.Clients, clients.Client{ID: "t", Split: clients.Test, Texts: []string{"held out"}},
		clients.Client{ID: "v", Split: clients.Validation, Texts: []string{"held out"}})
	return p
}

func samples(n int) embedding.Matrix {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("sample%d common%d", i, i%3)
	}
	m, _ := encoder{16}.Encode(texts)
	return m
}

// run is a run directory with its ledger, as a process sees it.
type run struct {
	t         *testing.T
	dir       string
	budget    ledger.Budget
	config    Config
	mechanism Gaussian
	asked     scoring.Options
	seed      *uint64
}

const testClients = 40

func newRun(t *testing.T, rounds int, seed *uint64) *run {
	t.Helper()
	b := ledger.Budget{Epsilon: 5, Delta: 1e-3, Mechanism: "gaussian", Unit: "a client is a test",
		Relation: accountant.ZeroOut, Clients: testClients, InsecureSeededNoise: seed != nil}
	sigma, err := accountant.Plan{Each: accountant.Event{Count: rounds}}.Sigma(accountant.Exact{}, b.Epsilon, b.Delta)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t: t, dir: t.TempDir(), budget: b, seed: seed,
		asked: scoring.Options{Normalize: scoring.Standardized, Clip: 1}, mechanism: Gaussian{Sigma: sigma},
		config: Config{InsecureSeed: seed}}
	l, err := ledger.Create(r.ledgerPath(), b)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return r
}

func (r *run) ledgerPath() string { return filepath.Join(r.dir, "ledger.jsonl") }

// open opens the ledger, which the caller closes, and makes a federation that charges it.
func (r *run) open() (*Federation, *ledger.Ledger) {
	r.t.Helper()
	l, err := ledger.Open(r.ledgerPath())
	if err != nil {
		r.t.Fatal(err)
	}
	config := r.config
	config.Ledger = l
	f, err := New(Embedded{embedded(r.t, testClients)}, r.mechanism, config)
	if err != nil {
		l.Close()
		r.t.Fatal(err)
	}
	return f, l
}

// process opens the ledger, makes a federation and collects one round, as a new process would, and ends.
func (r *run) process(round int, crash func(string) error) (*release.Release, error) {
	r.t.Helper()
	f, l := r.open()
	defer l.Close()
	f.crash = crash
	return f.Collect(r.request(round))
}

func (r *run) request(round int) release.Request {
	dir := filepath.Join(r.dir, fmt.Sprintf("%04d", round))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	return release.Request{Round: round, Query: question(r.t, samples(30), r.asked, "samples"), Dir: dir}
}

func question(t testing.TB, m embedding.Matrix, o scoring.Options, key string) query.Query {
	t.Helper()
	q, err := scoring.NewCosine(m, o, key)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// embedded is the population as the federation holds it.
func embedded(t testing.TB, n int) query.Clients {
	t.Helper()
	c, err := Embed(context.Background(), population(n).Split(clients.Train), encoder{16}, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *run) charges() []ledger.Entry {
	r.t.Helper()
	_, entries, err := ledger.Read(r.ledgerPath())
	if err != nil {
		r.t.Fatal(err)
	}
	return entries
}

func truth(t *testing.T, o scoring.Options) []float64 {
	t.Helper()
	sum, err := question(t, samples(30), o, "k").Sum(embedded(t, testClients))
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

var errCrash = errors.New("crash")

// A process that dies at any stage, any number of times, leaves a round with one charge and one noise.
func TestCrashAtEveryStage(t *testing.T) {
	seed := uint64(5)
	for _, seeded := range []*uint64{nil, &seed} {
		for _, stages := range [][]string{{"drawn"}, {"pending"}, {"charged"}, {"renamed"},
			{"drawn", "pending", "charged", "renamed"}, {"pending", "pending", "charged", "charged"}} {
			t.Run(fmt.Sprint(seeded != nil, stages), func(t *testing.T) {
				r := newRun(t, 2, seeded)
				pending := filepath.Join(r.request(1).Dir, release.PendingFile)
				var drawn []byte // the first noised sum on disk
				for _, stage := range stages {
					answer, err := r.process(1, func(at string) error {
						if at == stage {
							return errCrash
						}
						return nil
					})
					if stage == "pending" && drawn != nil {
						// Used again, not drawn again: the stage does not come.
						if err != nil || !slices.Equal(answer.Encode(), drawn) {
							t.Fatalf("second run: %v", err)
						}
						continue
					}
					if !errors.Is(err, errCrash) && !(err == nil && answer.Resumed) {
						t.Fatalf("crash at %s: %v", stage, err)
					}
					if b, err := os.ReadFile(pending); err == nil {
						if drawn != nil && !bytes.Equal(b, drawn) {
							t.Fatal("a second noise was drawn")
						}
						drawn = b
					}
				}
				answer, err := r.process(1, nil)
				if err != nil {
					t.Fatal(err)
				}
				content, err := os.ReadFile(filepath.Join(r.request(1).Dir, release.File))
				if err != nil || drawn != nil && !bytes.Equal(content, drawn) {
					t.Errorf("the release is not the first noise drawn (%v)", err)
				}
				entries := r.charges()
				if len(entries) != 1 || entries[0].ReleaseHash != answer.Hash ||
					ledger.ContentHash(content) != answer.Hash {
					t.Errorf("%d charges, release %s", len(entries), answer.Hash)
				}
				if _, err := os.Stat(pending); err == nil {
					t.Error("a pending file is left")
				}
				again, err := r.process(1, nil)
				if err != nil || !again.Resumed || !slices.Equal(again.Sum, answer.Sum) || len(r.charges()) != 1 {
					t.Errorf("asking again: %v, %d charges", err, len(r.charges()))
				}
			})
		}
	}
}

func TestBudgetStopsRounds(t *testing.T) {
	r := newRun(t, 2, nil)
	for round := 1; round <= 2; round++ {
		if _, err := r.process(round, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.process(3, nil); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("third of two rounds: %v", err)
	}
	files, _ := os.ReadDir(r.request(3).Dir)
	if len(files) != 0 || len(r.charges()) != 2 {
		t.Errorf("the refused round left %d files and %d charges", len(files), len(r.charges()))
	}
}

// A release that was charged and is gone must be paid for again, or be refused.
func TestLostRelease(t *testing.T) {
	r := newRun(t, 2, nil)
	first, err := r.process(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	final := filepath.Join(r.request(1).Dir, release.File)
	os.Remove(final)
	second, err := r.process(1, nil)
	if err != nil || slices.Equal(first.Sum, second.Sum) || len(r.charges()) != 2 {
		t.Fatalf("drawn again: %v, %d charges", err, len(r.charges()))
	}
	os.Remove(final)
	if _, err := r.process(1, nil); !errors.Is(err, ledger.ErrBudget) ||
		!strings.Contains(err.Error(), "charged 2 times") {
		t.Errorf("lost once more: %v", err)
	}

	seed := uint64(1)
	r = newRun(t, 1, &seed)
	first, err = r.process(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(r.request(1).Dir, release.File))
	second, err = r.process(1, nil)
	if err != nil || !slices.Equal(first.Sum, second.Sum) || len(r.charges()) != 1 {
		t.Errorf("seeded noise repeats the release that was charged: %v, %d charges", err, len(r.charges()))
	}
}

func TestForeignReleasesAreRefused(t *testing.T) {
	r := newRun(t, 2, nil)
	if _, err := r.process(1, nil); err != nil {
		t.Fatal(err)
	}
	final := filepath.Join(r.request(1).Dir, release.File)
	content, _ := os.ReadFile(final)

	changed := bytes.Clone(content)
	changed[len(changed)-3] ^= 1
	os.WriteFile(final, changed, 0o600)
	if _, err := r.process(1, nil); !errors.Is(err, ledger.ErrUncharged) {
		t.Errorf("a changed value: %v", err)
	}
	os.WriteFile(final, content[:len(content)-4], 0o600)
	if _, err := r.process(1, nil); !errors.Is(err, release.ErrMalformed) || !strings.Contains(err.Error(), final) {
		t.Errorf("a truncated release: %v", err)
	}
	os.WriteFile(final, content, 0o600)
	r.mechanism.Sigma *= 2
	_, err := r.process(1, nil)
	if !errors.Is(err, release.ErrOtherSamples) || !errors.Is(err, release.ErrOtherSettings) {
		t.Errorf("another sigma: %v", err)
	} else if text := err.Error(); !strings.Contains(text, "noise multiplier is ") || strings.ContainsAny(text, "{}") ||
		strings.Contains(text, "normalize") {
		t.Errorf("another sigma is told as %q", text)
	}
	r.mechanism.Sigma /= 2

	// A pending file: of other samples and not charged, it goes; charged, it stays and the call fails.
	pending := filepath.Join(r.request(1).Dir, release.PendingFile)
	os.Rename(final, pending)
	r.mechanism.Sigma *= 2
	if _, err := r.process(1, nil); !errors.Is(err, release.ErrOtherSamples) {
		t.Errorf("pending, charged, another sigma: %v", err)
	}
	r.mechanism.Sigma /= 2
	if answer, err := r.process(1, nil); err != nil || !answer.Resumed {
		t.Errorf("pending and charged: %v", err)
	}
	os.WriteFile(filepath.Join(r.request(2).Dir, release.PendingFile), changed, 0o600)
	if answer, err := r.process(2, nil); err != nil || answer.Resumed || len(r.charges()) != 2 {
		t.Errorf("a pending file of another round: %v", err)
	}
}

func TestKeyIdentifiesSamples(t *testing.T) {
	r := newRun(t, 2, nil)
	f, l := r.open()
	defer l.Close()
	request := r.request(1)
	request.Query = question(t, samples(30), r.asked, "texts 1")
	first, err := f.Collect(request)
	if err != nil {
		t.Fatal(err)
	}
	other := samples(30)
	other.Data[0] += 1e-7 // as another machine's encoder would
	request.Query = question(t, other, r.asked, "texts 1")
	if again, err := f.Collect(request); err != nil || !slices.Equal(first.Sum, again.Sum) {
		t.Errorf("same key: %v", err)
	}
	request.Query = question(t, other, r.asked, "texts 2")
	if _, err := f.Collect(request); !errors.Is(err, release.ErrOtherSamples) ||
		strings.Contains(err.Error(), "texts 2") {
		t.Errorf("other key: %v", err)
	}
}

// All ways to a sum give the same: computed at once, client by client and by two aggregators, with and
// without range proofs. Vectors that are rounded one by one are up to half a step each off the rounded sum.
func TestPathsConform(t *testing.T) {
	all := embedded(t, testClients)
	for name, asked := range questions(t) {
		grid, err := noise.NewGrid(2.5, asked.Bound(), asked.Len(), testClients)
		if err != nil {
			t.Fatal(err)
		}
		round := Round{release.Request{Round: 1, Query: asked}, grid, numeric.Indices(testClients)}
		summed, err := Embedded{all}.Sum(round)
		if err != nil {
			t.Fatal(err)
		}
		fast := summed.Steps
		slow, err := Embedded{all}.Rounded(round)
		if err != nil {
			t.Fatal(err)
		}
		reported, err := Reporting{Rounding: Embedded{all}, InsecureSeed: &aggregatorSeed}.Sum(round)
		if err != nil {
			t.Fatal(err)
		}
		limit := int64(testClients/2 + 1)
		if name == "votes" { // whole numbers are on the grid
			limit = 0
		}
		for i := range fast {
			if d := fast[i] - slow[i]; d > limit || -d > limit {
				t.Fatalf("%s: value %d is %d steps, client by client %d", name, i, fast[i], slow[i])
			}
		}
		noised := slices.Clone(slow)
		for _, role := range aggregate.Roles {
			if err := noise.Add(noised, grid, noise.Party(&aggregatorSeed, string(role), 1)); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(reported.Steps, noised) {
			t.Errorf("%s: the simulation of two aggregators gives another sum", name)
		}
		for _, proof := range []string{aggregate.NoProof, aggregate.RangeProof} {
			id, shares := twoAggregators(t, proof, asked, all, numeric.Indices(testClients), nil)
			steps, reports, err := aggregate.Merge(id, shares[0], shares[1])
			if err != nil || reports != testClients {
				t.Fatalf("%s, proof %q: %d reports, %v", name, proof, reports, err)
			}
			if !slices.Equal(steps, noised) {
				t.Errorf("%s, proof %q: with equal noise, two aggregators give another sum", name, proof)
			}
		}
	}
}

// still are clients of the simulation, or of two aggregators, whose vectors are zeros.
type still struct{ Reporting }

func (s still) Sum(r Round) (Sum, error) {
	steps := make([]int64, r.Query.Len())
	for _, role := range []string{"leader", "helper"} {
		if s.Least > 0 {
			if err := noise.Add(steps, r.Grid, noise.Party(nil, role, r.Round)); err != nil {
				return Sum{}, err
			}
		}
	}
	return Sum{steps, testClients}, nil
}

// The noise of one party is as planned, the noise of two aggregators has twice the variance, and both releases say so.
func TestNoiseOfPaths(t *testing.T) {
	const sigma, draws = 2.5, 300
	secure := func(string) noise.Source { return noise.Secure() }
	for least, m := range map[int]Mechanism{0: Gaussian{Sigma: sigma}, testClients: Aggregated{Gaussian{Sigma: sigma}}} {
		asked := question(t, samples(30), scoring.Options{Normalize: scoring.None, Clip: 0.5}, "k")
		request := release.Request{Round: 1, Query: asked}
		planned, grid, err := m.Plan(request, testClients)
		if err != nil {
			t.Fatal(err)
		}
		std := planned.NoiseStd()
		clients := still{Reporting{Rounding: Embedded{embedded(t, testClients)}, Least: least}}
		var total, squares, neighbours float64
		for range draws {
			drawn := *planned
			if err := m.Draw(&drawn, Round{request, grid, nil}, clients, secure); err != nil {
				t.Fatal(err)
			}
			previous := 0.0
			for _, d := range drawn.Sum {
				total += d
				squares += d * d
				neighbours += d * previous
				previous = d
			}
		}
		n := float64(draws * asked.Len())
		if mean := total / n; math.Abs(mean) > 5*std/math.Sqrt(n) {
			t.Errorf("least %d: noise has mean %g", least, mean)
		}
		if ratio := squares / n / (std * std); math.Abs(ratio-1) > 5*math.Sqrt(2/n) {
			t.Errorf("least %d: noise has %.4f of the variance it should have", least, ratio)
		}
		if c := neighbours / n / (std * std); math.Abs(c) > 5/math.Sqrt(n) {
			t.Errorf("least %d: neighbouring values' noise correlates by %g", least, c)
		}
	}
}

// Seeded noise depends on the seed, the round and its purpose alone; noise from entropy on nothing.
func TestSources(t *testing.T) {
	seed, other := uint64(9), uint64(10)
	source := func(seed *uint64, purpose string, r release.Request) noise.Source {
		return (&Federation{config: Config{InsecureSeed: seed}}).random(r)(purpose)
	}
	want := source(&seed, "noise", release.Request{Round: 1}).Uint64()
	if source(&seed, "noise", release.Request{Round: 1}).Uint64() != want {
		t.Error("seeded noise does not repeat itself")
	}
	for name, s := range map[string]noise.Source{"round": source(&seed, "noise", release.Request{Round: 2}),
		"purpose": source(&seed, "cohort", release.Request{Round: 1}),
		"seed":    source(&other, "noise", release.Request{Round: 1}),
		"entropy": source(nil, "noise", release.Request{Round: 1})} {
		if s.Uint64() == want {
			t.Errorf("noise of another %s is the same", name)
		}
	}
}

// Cohorts are of the size that was asked for, and each client is in as many as any other.
func TestCohorts(t *testing.T) {
	const train, wanted, rounds = 50, 12, 4000
	for _, sampling := range []ledger.Sampling{ledger.Full, ledger.Poisson, ledger.Fixed} {
		c := Gaussian{Sampling: sampling, Cohort: wanted}
		counts := make([]float64, train)
		sizes, squares := 0.0, 0.0
		for range rounds {
			drawn := c.cohort(train, func(string) noise.Source { return noise.Secure() })
			if !slices.IsSorted(drawn) || len(slices.Compact(slices.Clone(drawn))) != len(drawn) {
				t.Fatalf("%s: cohort %v", sampling, drawn)
			}
			for _, i := range drawn {
				counts[i]++
			}
			n := float64(len(drawn))
			sizes, squares = sizes+n, squares+n*n
		}
		p, mean := float64(wanted)/train, sizes/rounds
		spread := squares/rounds - mean*mean
		switch sampling {
		case ledger.Full:
			p = 1
			if spread != 0 || mean != train {
				t.Errorf("%s: %g clients, variance %g", sampling, mean, spread)
			}
		case ledger.Fixed:
			if spread > 1e-9 || mean != wanted {
				t.Errorf("%s: %g clients, variance %g", sampling, mean, spread)
			}
		case ledger.Poisson:
			if want := train * p * (1 - p); math.Abs(mean-wanted) > 6*math.Sqrt(want/rounds) ||
				math.Abs(spread/want-1) > 6*math.Sqrt(2.0/rounds) {
				t.Errorf("%s: %g clients, variance %g, want %d and %g", sampling, mean, spread, wanted, want)
			}
		}
		for i, n := range counts {
			if math.Abs(n-rounds*p) > 6*math.Sqrt(rounds*p*(1-p)) {
				t.Errorf("%s: client %d is in %g of %d cohorts, want %g", sampling, i, n, rounds, rounds*p)
			}
		}
	}
}

// A round of a sample is charged as one, whatever its size was, and a crash changes nothing.
func TestSampledRounds(t *testing.T) {
	for _, sampling := range []ledger.Sampling{ledger.Poisson, ledger.Fixed} {
		r := newRun(t, 1, nil)
		r.mechanism.Sampling, r.mechanism.Cohort = sampling, 10
		if sampling == ledger.Fixed {
			os.Remove(r.ledgerPath())
			os.Remove(r.ledgerPath() + ".head")
			r.budget.Relation = accountant.Replace
			l, err := ledger.Create(r.ledgerPath(), r.budget)
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			r.mechanism.Sigma *= 2
		}
		if _, err := r.process(1, func(at string) error {
			if at == "pending" {
				return errCrash
			}
			return nil
		}); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		answer, err := r.process(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		entries := r.charges()
		if len(entries) != 1 || entries[0].Sampling != sampling || entries[0].Cohort != 10 ||
			entries[0].Clients != 10 || entries[0].Sigma != r.mechanism.Sigma {
			t.Fatalf("%s: charges %+v", sampling, entries)
		}
		if want := 10.0 / testClients; sampling == ledger.Poisson && entries[0].SamplingRate != want {
			t.Errorf("rate %g, want %g", entries[0].SamplingRate, want)
		}
		if answer.Clients != 10 {
			t.Errorf("%s: %d clients leave the package", sampling, answer.Clients)
		}
		spent, err := ledger.Spent(r.budget, entries)
		all := entries[0]
		all.Sampling, all.SamplingRate, all.Cohort, all.Clients = ledger.Full, 0, testClients, testClients
		full, errFull := ledger.Spent(r.budget, []ledger.Entry{all})
		if err != nil || errFull != nil || spent >= full {
			t.Errorf("%s: a sample costs %g, everybody %g (%v, %v)", sampling, spent, full, err, errFull)
		}
	}
}

func TestReleaseLiesOnTheGrid(t *testing.T) {
	r := newRun(t, 1, nil)
	answer, err := r.process(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	step := answer.Step
	if step > answer.NoiseStd()*1e-6 || math.Exp2(math.Round(math.Log2(step))) != step {
		t.Errorf("grid %g for noise of %g", step, answer.NoiseStd())
	}
	for i, v := range answer.Sum {
		if math.Mod(v, step) != 0 {
			t.Errorf("value %d, %g, is no multiple of %g", i, v, step)
		}
	}
}

// What a round leaves on disk holds neither private text nor the true sum, and nothing that comes close to it.
func TestOnlyTheNoisedSumLeaves(t *testing.T) {
	r := newRun(t, 1, nil)
	answer, err := r.process(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := truth(t, r.asked)
	near := 0
	for i, v := range answer.Sum {
		if math.Abs(v-want[i]) < 1e-3*answer.NoiseStd() {
			near++
		}
	}
	if near > 2 {
		t.Errorf("%d of %d values are the true ones", near, len(want))
	}
	var names []string
	filepath.WalkDir(r.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		names = append(names, entry.Name())
		if bytes.Contains(b, []byte("secret")) || bytes.Contains(b, []byte("held out")) {
			t.Errorf("%s holds private text", path)
		}
		return nil
	})
	slices.Sort(names)
	if !slices.Equal(names, []string{"ledger.jsonl", "ledger.jsonl.head", "ledger.jsonl.lock", release.File}) {
		t.Errorf("files after a round: %q", names)
	}
}

func TestUnsafeDiagnostics(t *testing.T) {
	r := newRun(t, 1, nil)
	r.config.UnsafeDiagnostics = &UnsafeDiagnostics{Dir: r.dir,
		Compare: func(q query.Query, truth, noised []float64) (map[string]map[string]float64, error) {
			figures, err := scoring.Recovered(truth, noised, func(sum []float64) ([]float64, error) { return sum, nil },
				10, 5)
			return map[string]map[string]float64{q.Name(): figures}, err
		}}
	if _, err := r.process(1, nil); err != nil {
		t.Fatal(err)
	}
	path := diagnosisPath(r.dir, 1)
	if filepath.Base(filepath.Dir(path)) != UnsafeFolder {
		t.Errorf("diagnostics go to %s", path)
	}
	var d Diagnosis
	testfile.ReadJSON(t, path, &d)
	want := truth(t, r.asked)
	for i := range want {
		if math.Abs(d.TrueSum[i]-want[i]) > 1e-9 {
			t.Fatalf("true sum: value %d is %g, want %g", i, d.TrueSum[i], want[i])
		}
	}
	f := d.Figures[scoring.CosineName(scoring.Standardized)]
	if !(f["pairs"] >= 0 && f["pairs"] <= f["chosen"] && f["chosen"] <= 1 && f["ordered"] > 0 && f["ordered"] <= 1) ||
		d.Warning == "" {
		t.Errorf("%+v", d)
	}
}

func TestWithoutNoise(t *testing.T) {
	r := newRun(t, 1, nil)
	b := r.budget
	b.Epsilon = math.Inf(1)
	r.dir = t.TempDir()
	l, err := ledger.Create(r.ledgerPath(), b)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r.mechanism.Sigma = 0
	answer, err := r.process(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := truth(t, r.asked)
	for i, v := range answer.Sum {
		if math.Abs(v-want[i]) > 1e-12 {
			t.Errorf("value %d is %g, want %g", i, v, want[i])
		}
	}
}

func TestRefusals(t *testing.T) {
	r := newRun(t, 1, nil)
	l, err := ledger.Open(r.ledgerPath())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	good := r.config
	good.Ledger = l
	seed := uint64(1)
	all := Embedded{embedded(t, testClients)}
	for want, change := range map[string]func(*Config, *Gaussian){
		"no ledger":        func(c *Config, _ *Gaussian) { c.Ledger = nil },
		"noise multiplier": func(_ *Config, g *Gaussian) { g.Sigma = math.NaN() },
		"cohort of 3 un":   func(_ *Config, g *Gaussian) { g.Cohort = 3 },
		"cohort of 40 of":  func(_ *Config, g *Gaussian) { g.Sampling, g.Cohort = ledger.Poisson, testClients },
		"cohort of 0 of":   func(_ *Config, g *Gaussian) { g.Sampling = ledger.Fixed },
		"sampling is":      func(_ *Config, g *Gaussian) { g.Sampling = "x" },
		"want \"replace\"": func(_ *Config, g *Gaussian) { g.Sampling, g.Cohort = ledger.Fixed, 5 },
		"insecure seeded":  func(c *Config, _ *Gaussian) { c.InsecureSeed = &seed },
	} {
		c, g := good, r.mechanism
		change(&c, &g)
		if _, err := New(all, g, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := New(Embedded{embedded(t, testClients+1)}, r.mechanism, good); err == nil ||
		!strings.Contains(err.Error(), "41 train clients") {
		t.Errorf("another population: %v", err)
	}
	unsafe := good
	unsafe.UnsafeDiagnostics = &UnsafeDiagnostics{Dir: t.TempDir()}
	for _, c := range []Clients{Remote{Enrolled: testClients}, Ballots{all}, Learning{learner{testClients}},
		Reporting{Rounding: all}} {
		if _, err := New(c, r.mechanism, unsafe); err == nil || !strings.Contains(err.Error(), "diagnostics") {
			t.Errorf("diagnostics of %T: %v", c, err)
		}
	}
	f, err := New(all, r.mechanism, good)
	if err != nil {
		t.Fatal(err)
	}
	if f.Clients() != testClients {
		t.Errorf("%d clients", f.Clients())
	}
	for want, change := range map[string]func(*release.Request){
		"round 0":      func(q *release.Request) { q.Round = 0 },
		"no folder":    func(q *release.Request) { q.Dir = "" },
		"asks nothing": func(q *release.Request) { q.Query = nil },
		"what it is":   func(q *release.Request) { q.Query = question(t, samples(30), r.asked, "") },
		"dimensions, samples 8": func(q *release.Request) {
			q.Query = question(t, embedding.Matrix{Rows: 1, Dim: 8, Data: make([]float32, 8)}, r.asked, "k")
		},
		"no such file": func(q *release.Request) { q.Dir += "/missing" },
	} {
		request := r.request(1)
		change(&request)
		if _, err := f.Collect(request); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if n := len(l.Entries()); n != 0 {
		t.Errorf("%d charges for nothing", n)
	}
}

// A run whose folder was removed draws and releases nothing more.
func TestNothingIsReleasedWithoutTheLedgerOnDisk(t *testing.T) {
	r := newRun(t, 3, nil)
	f, l := r.open()
	defer l.Close()
	if _, err := f.Collect(r.request(1)); err != nil {
		t.Fatal(err)
	}
	request := r.request(2)
	testfile.Remove(t, r.ledgerPath())
	if answer, err := f.Collect(request); err == nil || answer != nil ||
		!strings.Contains(err.Error(), "removed or moved") {
		t.Errorf("without a ledger: %v, %v", answer, err)
	}
	if files, err := os.ReadDir(request.Dir); err != nil || len(files) > 0 {
		t.Errorf("left on disk: %v (%v)", files, err)
	}
}
