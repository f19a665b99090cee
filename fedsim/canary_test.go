package fedsim

import (
	"math"
	"testing"

	"popri/accountant"
	"popri/internal/numeric"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

func asking(o scoring.Options) func(embedding.Matrix, float64) (query.Query, error) {
	return func(samples embedding.Matrix, loose float64) (query.Query, error) {
		o := o
		o.Clip *= loose
		return scoring.NewCosine(samples, o, "canary")
	}
}

// mustShow plays g with a share of its noise, and without clipping: both must show.
func mustShow(t *testing.T, g Game, noise float64) {
	t.Helper()
	for _, broken := range []Game{{NoiseFactor: noise}, {SkipClip: true}} {
		b := g
		b.NoiseFactor, b.SkipClip = broken.NoiseFactor, broken.SkipClip
		if o, err := b.Play(); err != nil || o.Holds() {
			t.Errorf("%+v, broken: %+v (%v)", b, o, err)
		}
	}
}

// Votes are protected as scores are.
func TestCanaryOfVotes(t *testing.T) {
	ask := func(samples embedding.Matrix, loose float64) (query.Query, error) {
		return scoring.NewVotes(samples, scoring.VoteOptions{Metric: scoring.L2, Choices: 3, Bound: 0.5 * loose},
			"canary")
	}
	g := Game{Ask: ask, Sigma: 0.5, Rounds: 2, Delta: 1e-5, Trials: 800, Confidence: 1 - 1e-7}
	if o, err := g.Play(); err != nil || !o.Holds() || !(o.LowerBound() > 0.05*o.Claimed) {
		t.Errorf("%+v (%v)", o, err)
	}
	g.NoiseFactor = 0.3
	if o, err := g.Play(); err != nil || o.Holds() {
		t.Errorf("a third of the noise: %+v (%v)", o, err)
	}
}

// Votes for near and far samples within labels are protected as one vector.
func TestCanaryOfContrast(t *testing.T) {
	ask := func(samples embedding.Matrix, loose float64) (query.Query, error) {
		labels := make([]int32, samples.Rows)
		for i := range labels {
			labels[i] = int32(i % 2)
		}
		return scoring.NewContrast(samples, labels, 3, 0.5*loose, "canary") // a text's vector has the norm 1.62
	}
	g := Game{Ask: ask, Sigma: 0.5, Rounds: 2, Delta: 1e-5, Trials: 800, Confidence: 1 - 1e-7}
	if o, err := g.Play(); err != nil || !o.Holds() || !(o.LowerBound() > 0.05*o.Claimed) {
		t.Errorf("%+v (%v)", o, err)
	}
	mustShow(t, g, .3)
}

// Model updates are protected as scores are. A client of a tree of four leaves is in three released nodes.
func TestCanaryOfUpdates(t *testing.T) {
	for _, c := range []struct {
		epsilon float64
		rounds  int
		trials  int
		shows   float64 // that this many trials show, but once in a million
	}{{7, 3, 1500, 2.1}, {1, 2, 15000, .15}} {
		sigma, err := accountant.Plan{Each: accountant.Event{Count: c.rounds}}.Sigma(accountant.Exact{}, c.epsilon,
			1e-5)
		if err != nil {
			t.Fatal(err)
		}
		g := Game{Clip: .1, Sigma: sigma, Rounds: c.rounds, Delta: 1e-5, Trials: c.trials, Confidence: 1 - 1e-7}
		if o, err := g.Play(); err != nil || !o.Holds() || !(o.GaussianBound > c.shows) {
			t.Errorf("%+v: %+v (%v)", c, o, err)
		}
		mustShow(t, g, .5)
	}
}

// Selections protect as their accounting says.
func TestCanaryOfSelections(t *testing.T) {
	const rounds = 30
	sigma, err := accountant.Plan{Each: accountant.Event{Mechanism: accountant.Gumbel, Picks: 1, Slack: 1e-7,
		Count: rounds}}.Sigma(accountant.RDP{}, 2, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	g := Game{Picks: 1, Slack: 1e-7, Sigma: sigma, Rounds: rounds, Delta: 1e-5, Trials: 6000, Confidence: 1 - 1e-5}
	if o, err := g.Play(); err != nil || !o.Holds() || !(o.LowerBound() > 0) || o.Claimed > 2 {
		t.Errorf("%+v (%v)", o, err)
	}
	mustShow(t, g, .1)
}

// What is released of teachers' votes protects as their histogram does, for teachers of one client and of several.
func TestCanaryOfTeachers(t *testing.T) {
	for _, c := range []struct{ bound, epsilon, shows float64 }{{1, 7, .3}, {math.Sqrt2, 7, .1}} {
		const rounds = 20
		sigma, err := accountant.Plan{Each: accountant.Event{Count: rounds}}.Sigma(accountant.Exact{}, c.epsilon, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		g := Game{Votes: c.bound, Sigma: sigma, Rounds: rounds, Delta: 1e-5, Trials: 1500, Confidence: 1 - 1e-7}
		if o, err := g.Play(); err != nil || !o.Holds() || !(o.GaussianBound > c.shows*c.epsilon) {
			t.Errorf("%+v: %+v (%v)", c, o, err)
		}
		mustShow(t, g, .3)
	}
	if _, err := (Game{Votes: 1, Clip: 1, Sigma: 1, Rounds: 1, Delta: 1e-5, Trials: 20}).Play(); err == nil {
		t.Error("two kinds of questions")
	}
}

// The mechanism as it is stays below what is claimed, and not far; with half the noise or without clipping it does not.
// Confidences are so high that chance does not decide.
func TestCanary(t *testing.T) {
	standardized, plain := scoring.Options{Normalize: scoring.Standardized,
		Clip: 1}, scoring.Options{Normalize: scoring.None, Clip: 0.5}
	for _, c := range []struct {
		options scoring.Options
		epsilon float64
		trials  int
	}{
		{standardized, 1, 9000},
		{standardized, 7, 1500},
		{plain, 7, 1500},
	} {
		const rounds = 2
		sigma, err := accountant.Plan{Each: accountant.Event{Count: rounds}}.Sigma(accountant.Exact{}, c.epsilon, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		g := Game{Ask: asking(c.options), Sigma: sigma, Rounds: rounds, Delta: 1e-5, Trials: c.trials,
			Confidence: 1 - 1e-7}
		o, err := g.Play()
		if err != nil {
			t.Fatal(err)
		}
		if !o.Holds() || o.Claimed > c.epsilon || o.Claimed < 0.9999*c.epsilon || o.GaussianBound < 0.03*c.epsilon {
			t.Errorf("%+v: %+v", c, o)
		}
		broken := g
		broken.NoiseFactor = 0.5
		if o, err := broken.Play(); err != nil || o.Holds() || o.GaussianBound <= o.Claimed {
			t.Errorf("%+v, half the noise: %+v (%v)", c, o, err)
		}
		broken = g
		broken.SkipClip = true
		broken.Trials = min(g.Trials, 800)
		if o, err := broken.Play(); err != nil || o.Holds() {
			t.Errorf("%+v, no clipping: %+v (%v)", c, o, err)
		}
	}
}

// All hits and tiny probabilities of error: (miss)^(1/n) exactly.
func TestSureBounds(t *testing.T) {
	if got, want := numeric.ProbabilityAtLeast(600, 600, 5e-8), math.Pow(5e-8, 1.0/600); math.Abs(got-want) > 1e-9 {
		t.Errorf("600 of 600: at least %g, want %g", got, want)
	}
	if got, want := numeric.ProbabilityAtMost(0, 600, 5e-8), 1-math.Pow(5e-8, 1.0/600); math.Abs(got-want) > 1e-9 {
		t.Errorf("0 of 600: at most %g, want %g", got, want)
	}
}

// The exact bounds on a probability, against the binomial sums that define them.
func TestClopperPearson(t *testing.T) {
	tail := func(n, from int, p float64) float64 {
		var sum float64
		for k := from; k <= n; k++ {
			a, _ := math.Lgamma(float64(n) + 1)
			b, _ := math.Lgamma(float64(k) + 1)
			c, _ := math.Lgamma(float64(n-k) + 1)
			sum += math.Exp(a - b - c + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
		}
		return sum
	}
	for _, c := range []struct{ k, n int }{{0, 10}, {1, 10}, {10, 10}, {37, 200}, {1999, 2000}} {
		low, high := numeric.ProbabilityAtLeast(c.k, c.n, 0.025), numeric.ProbabilityAtMost(c.k, c.n, 0.025)
		if c.k > 0 && math.Abs(tail(c.n, c.k, low)-0.025) > 1e-6 || c.k == 0 && low != 0 {
			t.Errorf("%d of %d: at least %g", c.k, c.n, low)
		}
		if c.k < c.n && math.Abs(1-tail(c.n, c.k+1, high)-0.025) > 1e-6 || c.k == c.n && high != 1 {
			t.Errorf("%d of %d: at most %g", c.k, c.n, high)
		}
	}
}

func TestGamesAreValidated(t *testing.T) {
	good := Game{Ask: asking(scoring.Options{Normalize: scoring.None, Clip: 1}), Sigma: 1, Rounds: 1, Delta: 1e-5,
		Trials: 100}
	if _, err := good.Play(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Game){
		"noise":      func(g *Game) { g.Sigma = 0 },
		"rounds":     func(g *Game) { g.Rounds = 0 },
		"trials":     func(g *Game) { g.Trials = 3 },
		"delta":      func(g *Game) { g.Delta = 0 },
		"confidence": func(g *Game) { g.Confidence = 2 },
		"factor":     func(g *Game) { g.NoiseFactor = 3 },
		"question":   func(g *Game) { g.Ask = nil },
		"norm bound": func(g *Game) { g.Ask = asking(scoring.Options{Normalize: scoring.None}) },
	} {
		g := good
		change(&g)
		if _, err := g.Play(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
