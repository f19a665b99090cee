package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/fedsim"
	"popri/fedsim/release"
	"popri/internal/rng"
	"popri/internal/rundir"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
	"popri/testkit/testfile"
)

// rounds gives the samples of a run of made, as its encoder sees them.
func rounds(t *testing.T, dir string) func(int) (Round, error) {
	return func(round int) (Round, error) {
		r, err := release.Read(filepath.Join(dir, "rounds", fmt.Sprintf("%04d", round), release.File))
		if err != nil {
			return Round{}, err
		}
		return Round{Samples: vectors(t), Key: r.Key}, nil
	}
}

func measured(t *testing.T, dir string) *Report {
	t.Helper()
	r, err := Run(dir, Options{Rounds: rounds(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// forged copies a run with other sums, and a ledger with hashes that fit them: all that today's hashes can tell is
// mended.
func forged(t *testing.T, dir string, change func(sum []float64)) string {
	t.Helper()
	record, err := ledger.Inspect(filepath.Join(dir, rundir.Ledger))
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	l, err := ledger.Create(filepath.Join(to, rundir.Ledger), record.Budget)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config := testfile.Read(t, filepath.Join(dir, rundir.Config))
	write(t, filepath.Join(to, rundir.Config), config)
	for _, e := range record.Entries {
		name := filepath.Join("rounds", fmt.Sprintf("%04d", e.Round), release.File)
		content := testfile.Read(t, filepath.Join(dir, name))
		answer, err := release.Read(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		change(answer.Sum)
		header, _, _ := bytes.Cut(content, []byte("\n"))
		out := append(bytes.Clone(header), '\n')
		for _, v := range answer.Sum {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(math.Round(v/answer.Step)*answer.Step))
		}
		testfile.Folder(t, filepath.Dir(filepath.Join(to, name)))
		write(t, filepath.Join(to, name), out)
		sum := sha256.Sum256(out)
		e.ReleaseHash = hex.EncodeToString(sum[:])
		if err := l.Charge(e); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// scaled multiplies sums, noise and all.
func scaled(by float64) func([]float64) {
	return func(sum []float64) {
		for i := range sum {
			sum[i] *= by
		}
	}
}

// TestNoNoiseWhereSumsFillTheSpace: of updates of a model and of votes for tokens, no part of a release is noise alone.
// Noise that is missing or halved shows all the same, and charged noise does not, whatever the true sum is.
func TestNoNoiseWhereSumsFillTheSpace(t *testing.T) {
	random := rng.New(1, t.Name())
	const step = 1.0 / 1024
	made := func(query string, values int, std float64, sum func() float64) foundRelease {
		c := &release.Release{Query: query, Sigma: 2, Sensitivity: 1.5, Bound: 1.5, Clients: 100, Step: step, Round: 1}
		for range values {
			c.Sum = append(c.Sum, math.Round((sum()+std*random.NormFloat64())/step)*step)
		}
		return foundRelease{"release", c}
	}
	small := func() float64 { return 0.01 * random.NormFloat64() }
	large := func() float64 { return 100 * random.NormFloat64() }
	zero := func() float64 { return 0 }
	for _, c := range []struct {
		name  string
		found foundRelease
		sound bool
	}{
		{"charged noise alone", made("update/l2", 20000, 3, zero), true},
		{"on small values", made("update/l2", 20000, 3, small), true},
		{"on large values", made("update/l2", 20000, 3, large), true},
		{"no noise", made("update/l2", 20000, 0, small), false},
		{"half of it", made("update/l2", 20000, 1.5, small), false},
		{"nine tenths of it", made("update/l2", 200000, 2.7, small), false},
		{"few values without noise", made("update/l2", 40, 0, small), false},
	} {
		r := &Report{found: []foundRelease{c.found}}
		if err := r.testNoise(nil); err != nil || r.Sound() != c.sound || len(r.NoiseUntested) != 1 {
			t.Errorf("%s: %v, %q, %q", c.name, err, r.Problems, r.NoiseUntested)
		}
	}
	for _, noise := range []float64{0, 3} {
		r := &Report{}
		for range 38 {
			f := made("ensemble/homogeneous/coordinated temperature 1", 2, noise, func() float64 { return 17 })
			f.release.Chosen = true
			none := f // a vote without a result, of which 0 is released
			none.release = &release.Release{Query: f.release.Query, Sigma: 2, Step: step, Sum: []float64{-1, 0}, Chosen: true}
			r.found = append(r.found, f, none)
		}
		if err := r.testNoise(nil); err != nil || r.Sound() != (noise > 0) {
			t.Errorf("counts with noise of %g: %v, %q", noise, err, r.Problems)
		}
	}
}

func TestNoiseIsMeasured(t *testing.T) {
	for _, sampling := range []ledger.Sampling{ledger.Full, ledger.Poisson, ledger.Fixed} {
		dir := made(t, 3, sampling, "")
		r := measured(t, dir)
		if !r.Sound() || len(r.Noise) != 3 || r.NoisePooled == nil || len(r.NoiseUntested) > 0 {
			t.Fatalf("%s: %+v", sampling, r)
		}
		p := *r.NoisePooled
		if p.Freedom != 3*r.Noise[0].Freedom || r.Noise[0].Freedom != 80-r.Noise[0].Rank || r.Noise[0].Rank > 16 ||
			p.Ratio < 0.7 || p.Ratio > 1.4 || !(p.Finds > 0.5 && p.Finds < 1) {
			t.Errorf("%s: %+v, %+v", sampling, r.Noise[0], p)
		}
		if text := strings.Join(r.NoiseWords(), " "); !strings.Contains(text, "3 releases") ||
			!strings.Contains(text, "can evade this test") {
			t.Errorf("%s: %q", sampling, text)
		}
		for name, c := range map[string]struct {
			change func([]float64)
			want   string
		}{
			"halved": {scaled(0.5), "of what was to be added"},
			"zeroed": {scaled(0), "of what was to be added"},
			"others": {scaled(3), "not a sum of such vectors"},
		} {
			f := measured(t, forged(t, dir, c.change))
			if f.Sound() || !strings.Contains(strings.Join(f.Problems, "\n"), c.want) {
				t.Errorf("%s, %s: problems %q, want %q", sampling, name, f.Problems, c.want)
			}
			if p := f.NoisePooled; p == nil || name == "halved" && p.Ratio > 0.7 || name == "zeroed" && p.Ratio > 1e-6 {
				t.Errorf("%s, %s: %+v", sampling, name, p)
			}
		}
	}
}

// The noise of vectors that are only clipped is measured too.
func TestNoiseOfOtherSettings(t *testing.T) {
	release, r := oneRelease(t, 300, 20, scoring.Options{Normalize: scoring.None, Clip: 0.3})
	n, why, err := r.noiseOf(foundRelease{"x", release},
		func(int) (Round, error) { return Round{Samples: r.samples, Key: release.Key}, nil })
	if err != nil || why != "" {
		t.Fatal(err, why)
	}
	n.judge(1)
	if n.Rank != 20 || n.Freedom != 280 || n.tooLittle() || n.tooMuch() {
		t.Errorf("%d of %d clients, sigma %g: %+v", release.Clients, release.Cohort, release.Sigma, n)
	}
	// With the noise that was planned instead of the one that is there, or the other way round, it would not fit.
	n.Statistic *= 0.25
	if n.judge(1); !n.tooLittle() {
		t.Errorf("half of the noise passes: %+v", n)
	}
}

// measuring is a report with the samples of its release.
type measuring struct {
	Report
	samples embedding.Matrix
}

// oneRelease collects one round of samples in n of d dimensions.
func oneRelease(t *testing.T, n, d int, o scoring.Options) (*release.Release, *measuring) {
	t.Helper()
	dir := t.TempDir()
	b := ledger.Budget{Epsilon: math.Inf(1), Delta: 1e-3, Mechanism: "gaussian", Unit: "a client is a test",
		Relation: accountant.ZeroOut, Data: "d", Clients: trainClients}
	l, err := ledger.Create(filepath.Join(dir, rundir.Ledger), b)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	random := rng.New(9, t.Name())
	m := embedding.NewMatrix(n, d)
	for i := range m.Data {
		m.Data[i] = float32(random.NormFloat64())
	}
	f, err := fedsim.New(fedsim.Embedded{Clients: embedded(t, directions{d})}, fedsim.Gaussian{Sigma: 2},
		fedsim.Config{Ledger: l})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f.Collect(release.Request{Round: 1, Query: question(t, scoring.Unit(m), o), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return answer, &measuring{samples: scoring.Unit(m)}
}

// directions gives every text a direction by its length and first letter.
type directions struct{ d int }

func (e directions) Name() string { return "directions" }
func (e directions) Dim() int     { return e.d }
func (e directions) Encode(texts []string) (embedding.Matrix, error) {
	m := embedding.NewMatrix(len(texts), e.d)
	for i, text := range texts {
		random := rng.New(1, text)
		for j := range e.d {
			m.Row(i)[j] = float32(random.NormFloat64())
		}
	}
	return scoring.Unit(m), nil
}

// Where the noise cannot be measured the audit says so, and that is no problem; changed samples are one.
func TestNoiseUntested(t *testing.T) {
	dir := made(t, 2, ledger.Full, "")
	for name, c := range map[string]struct {
		rounds        func(int) (Round, error)
		says, problem string
	}{
		"no encoder": {func(int) (Round, error) { return Round{}, errors.New("scoring.encoder is gone") },
			"scoring.encoder is gone", ""},
		"none": {nil, "were not given", ""},
		"another encoder": {func(n int) (Round, error) {
			r, err := rounds(t, dir)(n)
			r.Key += " other"
			return r,
				err
		}, "the encoder is not the one", ""},
		"other samples": {func(n int) (Round, error) { r, err := rounds(t, dir)(n); r.Key = "x"; return r, err },
			"other samples", "changed afterwards"},
		"fewer samples": {func(n int) (Round, error) {
			r, err := rounds(t, dir)(n)
			r.Samples = r.Samples.Slice(0, 70)
			return r, err
		}, "other samples", "has 80 values, and its round has 70 samples"},
		"no part is noise alone": {func(n int) (Round, error) {
			r, err := rounds(t, dir)(n)
			r.Samples = embedding.NewMatrix(80, 90)
			random := rng.New(2, "wide")
			for i := range r.Samples.Data {
				r.Samples.Data[i] = float32(random.NormFloat64())
			}
			r.Samples = scoring.Unit(r.Samples)
			return r, err
		}, "", ""},
	} {
		r, err := Run(dir, Options{Rounds: c.rounds})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c.says != "" && (r.NoisePooled != nil || !strings.Contains(strings.Join(r.NoiseWords(), " "), c.says)) {
			t.Errorf("%s: %q", name, r.NoiseWords())
		}
		if r.Sound() != (c.problem == "") || !strings.Contains(strings.Join(r.Problems, "\n"), c.problem) {
			t.Errorf("%s: problems %q, want %q", name, r.Problems, c.problem)
		}
	}
}

// The power for a round as large as a demo's, by the formula and by drawing.
func TestPowerOfTheNoiseTest(t *testing.T) {
	n := NoiseTest{Freedom: 2000 - 128, Statistic: 2000 - 128}
	n.judge(1)
	if !(n.Finds > 0.87 && n.Finds < 0.89) || n.Ratio != 1 || n.Less < 0.4 || n.Less > 0.6 {
		t.Errorf("%+v", n)
	}
	t.Logf("one release of 2000 samples, rank 128: noise of %.4f or less of the planned one is found", n.Finds)
	random := rng.New(5, t.Name())
	found, alarms := 0, 0
	const trials = 1000
	for range trials {
		honest := NoiseTest{Freedom: n.Freedom}
		for range n.Freedom {
			x := random.NormFloat64()
			honest.Statistic += x * x
		}
		less := honest
		less.Statistic *= n.Finds * n.Finds
		honest.judge(1)
		less.judge(1)
		if honest.tooLittle() || honest.tooMuch() {
			alarms++
		}
		if less.tooLittle() {
			found++
		}
	}
	if alarms > 0 || math.Abs(float64(found)/trials-power) > 0.015 {
		t.Errorf("%d of %d honest releases fail, %d of those with less noise are found", alarms, trials, found)
	}
}

// What the configuration says is compared with each release and with the ledger.
func TestConfigurationIsCompared(t *testing.T) {
	for _, sampling := range []ledger.Sampling{ledger.Full, ledger.Poisson} {
		for want, change := range map[string]func(c *configs.Config){
			"norm bound = 1000":   func(c *configs.Config) { c.Scoring.ClipNorm = 1000 },
			"query = cosine/none": func(c *configs.Config) { c.Scoring.Normalize = "none" },
			"fed.sampling = fixed": func(c *configs.Config) {
				c.Fed.Sampling,
					c.Fed.ClientsPerRound = "fixed", 10
			},
			"fed.clients_per_round = 9": func(c *configs.Config) {
				c.Fed.Sampling,
					c.Fed.ClientsPerRound = "poisson", 9
			},
			"privacy.insecure_seeded_noise = true":    func(c *configs.Config) { c.Privacy.InsecureSeededNoise = true },
			"privacy.noise_multiplier = 50":           func(c *configs.Config) { c.Privacy.NoiseMultiplier = 50 },
			"privacy.epsilon = 3, the ledger 6":       func(c *configs.Config) { c.Privacy.Epsilon = 3 },
			"privacy.delta = 1e-05, the ledger 0.001": func(c *configs.Config) { c.Privacy.Delta = 1e-5 },
			"privacy.group = 2, the ledger 1":         func(c *configs.Config) { c.Privacy.Group = 2 },
			"(no change)":                             func(c *configs.Config) {},
			"config.yaml is missing":                  nil,
			"clip_norm":                               func(c *configs.Config) { c.Scoring.ClipNorm = -1 },
			"was made with 1 (and 1 more do not fit)": func(c *configs.Config) { c.Scoring.ClipNorm = 2 },
		} {
			dir := made(t, 2, sampling, "")
			path := filepath.Join(dir, rundir.Config)
			if change == nil {
				os.Remove(path)
			} else {
				c, err := configs.Load(configs.LoadOptions{File: path})
				if err != nil {
					t.Fatal(err)
				}
				change(c)
				write(t, path, c.YAML())
			}
			r := audited(t, dir)
			if want == "(no change)" {
				if !r.Sound() {
					t.Errorf("%s: %q", sampling, r.Problems)
				}
				continue
			}
			if r.Sound() || !strings.Contains(strings.Join(r.Problems, "\n"), want) {
				t.Errorf("%s: problems %q, want %q", sampling, r.Problems, want)
			}
		}
	}
}

// Where the settings cannot be read, nobody knows which rounds ask, and the audit complains of the settings alone.
func TestUnreadableConfiguration(t *testing.T) {
	dir := made(t, 1, ledger.Full, "")
	write(t, filepath.Join(rundir.Round(dir, 2), "pairs.parquet"), nil)
	if r := audited(t, dir); !strings.Contains(strings.Join(r.Problems, "\n"), "made after a release that is not on disk") {
		t.Errorf("a round without a release: %q", r.Problems)
	}
	write(t, filepath.Join(dir, rundir.Config), []byte("trainer:\n  max_hours: 5\n"))
	if r := audited(t, dir); len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "trainer.max_hours") {
		t.Errorf("a setting of an earlier version: %q", r.Problems)
	}
}

// A ledger that was rolled back with its head and its releases is found by a hash that was kept elsewhere; one that has
// grown since is not complained of.
func TestAnchoredHead(t *testing.T) {
	dir := made(t, 2, ledger.Full, "")
	r := audited(t, dir)
	if len(r.Head) != 64 || r.Head != r.Record.Hashes[2] {
		t.Fatalf("the head is %q", r.Head)
	}
	for _, head := range []string{r.Head, r.Head[:leastHead], r.Record.Hashes[1], r.Record.Hashes[0][:20]} {
		if got, err := Run(dir, Options{Head: head}); err != nil || !got.Sound() {
			t.Errorf("head %s: %v, %q", head, err, got.Problems)
		}
	}
	for _, head := range []string{"abc", strings.Repeat("0", 65), strings.ToUpper(r.Head[:12]) + "G", "xyzxyzxyzxyz"} {
		if _, err := Run(dir, Options{Head: head}); err == nil {
			t.Errorf("head %q is taken", head)
		}
	}
	// Rolled back: the last line, its head, and what came of it.
	path := filepath.Join(dir, rundir.Ledger)
	b := testfile.Read(t, path)
	write(t, path, b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1])
	write(t, path+".head", fmt.Appendf(nil, "2 %s\n", r.Record.Hashes[1]))
	if err := os.RemoveAll(filepath.Join(dir, "rounds", "0002")); err != nil {
		t.Fatal(err)
	}
	if got, err := Run(dir, Options{}); err != nil || !got.Sound() {
		t.Fatalf("without an anchor: %v, %q", err, got.Problems)
	}
	if got, err := Run(dir, Options{Head: r.Head}); err != nil || got.Sound() ||
		!strings.Contains(got.Problems[0], "taken away together with the head") {
		t.Errorf("with the anchor: %v, %q", err, got.Problems)
	}
}

// TestCheckValues: a release of means or of votes holds values that are noise alone. They tell half
// the noise and no noise from what was charged, without samples or an encoder.
func TestCheckValues(t *testing.T) {
	mean, err := scoring.NewMean(16, scoring.MeanOptions{Full: true, Bound: 1, Checks: 1024}, "k")
	if err != nil {
		t.Fatal(err)
	}
	votes, err := scoring.NewVotes(vectors(t), scoring.VoteOptions{Metric: scoring.L2, Choices: 1, Bound: 1}, "k")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []query.Query{mean, scoring.WithChecks(votes, 1024)} {
		random := rng.New(3, "checks")
		for _, c := range []struct {
			factor       float64
			little, much bool
		}{{1, false, false}, {0.5, true, false}, {0, true, false}, {0.84, true, false}, {2, false, true}} {
			answer := &release.Release{Round: 1, Query: q.Name(), Bound: 1, Sigma: 0.6, Sensitivity: 1, Key: "k"}
			for range q.Len() {
				answer.Sum = append(answer.Sum, c.factor*0.6*random.NormFloat64())
			}
			for j := range q.Len() - 1024 {
				answer.Sum[j] += 100 // the clients' part, which does not count
			}
			asked, ok, err := scoring.CheckedOf(answer.Query, len(answer.Sum))
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			n, why, err := outside(answer, asked)
			if err != nil || why != "" || n.Freedom != 1024 {
				t.Fatalf("%s: %+v, %q (%v)", q.Name(), n, why, err)
			}
			if n.judge(2); n.tooLittle() != c.little || n.tooMuch() != c.much {
				t.Errorf("%s, %g of the noise: %+v", q.Name(), c.factor, n)
			}
		}
	}
}
