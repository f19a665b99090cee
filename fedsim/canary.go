package fedsim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"popri/accountant"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring/counts"
	"popri/scoring/ensemble"
	"popri/scoring/query"
	"popri/scoring/update"
)

// Game tries to find out from noised sums whether one client, the canary, took part. It uses the code that scores real
// clients, with made-up clients that the attacker knows, except whether the canary is among them. The success of the
// best test gives a lower bound on the privacy loss of the mechanism as it runs, independent of the formulas.
type Game struct {
	// Ask makes the query about samples (unit vectors), with loose times its norm bound: 1, or far more to leave
	// clipping out. Required, unless Clip, Counts, Votes or Picks is set.
	Ask func(samples embedding.Matrix, loose float64) (query.Query, error)
	// Clip, above 0, is the norm bound of model updates, which are asked instead: made-up ones, since clipping bounds
	// whatever clients' training gives.
	Clip float64
	// Counts asks for counts of tokens and of pairs of them (package counts), of made-up clients.
	Counts bool
	// Votes, above 0, is the norm bound of teachers' votes (package ensemble), which are asked instead. What is
	// released of them, a token with its noised count, is all that the attacker sees.
	Votes float64
	// Picks, above 0, plays with selections of Picks counts by LimitedDomain instead, with the slack Slack, of which
	// the attacker sees the list. GaussianBound is then 0: the noise is none.
	Picks  int
	Slack  float64
	Sigma  float64
	Rounds int
	Delta  float64 // at which ε is stated
	// Trials is how often the game is played with the canary, and as often without: a quarter of them choose the
	// threshold that the others are judged by.
	Trials int
	// Confidence is the probability with which the bound holds; 0 means 0.95.
	Confidence float64
	// NoiseFactor and SkipClip break the mechanism, to check that the game detects it: 0.5 halves the noise.
	NoiseFactor float64 // 0 means 1
	SkipClip    bool
}

// Outcome is the result of a game.
type Outcome struct {
	Trials        int     `json:"trials"` // that were judged, with the canary and as many without
	TruePositive  int     `json:"true_positive"`
	FalsePositive int     `json:"false_positive"`
	Confidence    float64 `json:"confidence"`
	Delta         float64 `json:"delta"`
	// Claimed is the ε that the accountant states for the planned noise.
	Claimed float64 `json:"claimed"`
	// GaussianBound is a lower bound on ε for Gaussian noise: the ε of the Gaussian release whose best test is as good
	// as the measured one (Nasr et al. 2023).
	GaussianBound float64 `json:"gaussian_bound"`
	// DistributionFreeBound is a lower bound on ε that assumes nothing about the noise: ln((TPR − δ)/FPR), or the same
	// for the other error.
	DistributionFreeBound float64 `json:"distribution_free_bound"`
}

// Holds reports whether no lower bound exceeds the claim.
func (o Outcome) Holds() bool { return o.LowerBound() <= o.Claimed }

// LowerBound is the larger of both lower bounds on ε.
func (o Outcome) LowerBound() float64 { return max(o.GaussianBound, o.DistributionFreeBound) }

// The made-up world: enough samples and clients to exercise the whole mechanism, and few enough to be fast.
const (
	gameSamples = 60
	gameDim     = 12
	gameClients = 15
)

// Play plays the game.
func (g Game) Play() (Outcome, error) {
	g.Confidence = cmp.Or(g.Confidence, 0.95)
	g.NoiseFactor = cmp.Or(g.NoiseFactor, 1)
	if err := g.validate(); err != nil {
		return Outcome{}, err
	}
	var accounts accountant.Accountant = accountant.Exact{}
	event := accountant.Event{Sigma: g.Sigma, Count: g.Rounds}
	if g.Picks > 0 {
		accounts, event.Mechanism, event.Picks, event.Slack = accountant.RDP{}, accountant.Gumbel, g.Picks, g.Slack
	}
	claimed, err := accounts.Epsilon([]accountant.Event{event}, g.Delta)
	if err != nil {
		return Outcome{}, err
	}
	opponents := g.embedded
	switch {
	case g.Clip > 0:
		opponents = g.updated
	case g.Counts:
		opponents = g.counted
	case g.Votes > 0:
		opponents = g.voted
	case g.Picks > 0:
		opponents = g.ranked
	}
	w, err := opponents()
	if err != nil {
		return Outcome{}, err
	}
	// The sum's component along the canary's vector is all that distinguishes the two cases: for Gaussian noise, the
	// likelihood ratio grows with it.
	play := func(canary bool) (float64, error) {
		var statistic float64
		for range g.Rounds {
			if w.ranks != nil {
				seen, err := w.ranks(canary)
				if err != nil {
					return 0, err
				}
				statistic += seen
				continue
			}
			steps, err := w.sum(canary)
			if err == nil {
				err = noise.Add(steps, w.grid, noise.Secure())
			}
			if err != nil {
				return 0, err
			}
			statistic += w.seen(steps)
		}
		return statistic, nil
	}
	var in, out []float64
	for range g.Trials {
		x, err := play(true)
		if err != nil {
			return Outcome{}, err
		}
		y, err := play(false)
		if err != nil {
			return Outcome{}, err
		}
		in, out = append(in, x), append(out, y)
	}
	first := g.Trials / 4
	// At the midpoint, a test of two Gaussian values of equal spread has equal error rates. It measures their distance with
	// the fewest trials.
	threshold := (stat.Mean(in[:first], nil) + stat.Mean(out[:first], nil)) / 2
	o := Outcome{Trials: g.Trials - first, Confidence: g.Confidence, Delta: g.Delta, Claimed: claimed}
	o.TruePositive, o.FalsePositive = above(in[first:], threshold), above(out[first:], threshold)
	o.GaussianBound, o.DistributionFreeBound, err = g.bound(o.TruePositive, o.FalsePositive, o.Trials)
	return o, err
}

// opponents are what the attacker plays against.
type opponents struct {
	grid   noise.Grid
	base   []float64 // the sum without the canary
	canary []float64 // its vector
	sum    func(canary bool) ([]int64, error)
	choose func(noised []float64) float64 // what the attacker makes of the release where it is no sum; else nil
	// ranks plays a selection and returns what the attacker makes of it; nil where sums are played.
	ranks func(canary bool) (float64, error)
}

// seen is the statistic of a release that is made of a noised sum.
func (w opponents) seen(steps []int64) (statistic float64) {
	noised := numeric.Map(steps, w.grid.Value)
	if w.choose != nil {
		return w.choose(noised)
	}
	for i, v := range noised {
		statistic += (v - w.base[i]) * w.canary[i]
	}
	return statistic
}

// plays is the grid of the game, with the noise that the game leaves.
func (g Game) plays(bound float64, n int) (noise.Grid, error) {
	grid, err := noise.NewGrid(g.Sigma, bound, n, gameClients+1)
	grid.Units = uint64(math.Ceil(float64(grid.Units) * g.NoiseFactor))
	return grid, err
}

// embedded answer the query of the game.
func (g Game) embedded() (w opponents, err error) {
	samples := unitRows("samples", gameSamples)
	asked, err := g.Ask(samples, 1)
	if err != nil {
		return w, err
	}
	if w.grid, err = g.plays(asked.Bound(), asked.Len()); err != nil {
		return w, err
	}
	if g.SkipClip {
		if asked, err = g.Ask(samples, 1e6); err != nil {
			return w, err
		}
	}
	with := world()
	without := with.Select(numeric.Indices(gameClients)) // the canary is the last client
	if w.canary, err = asked.Vector(with, gameClients); err != nil {
		return w, err
	}
	w.base, err = asked.Sum(without)
	w.sum = func(canary bool) ([]int64, error) {
		clients := without
		if canary {
			clients = with
		}
		sum, err := asked.Sum(clients)
		return w.grid.RoundAll(sum), err
	}
	return w, err
}

// updated answer with updates, of which the canary's is the longest before it is clipped.
func (g Game) updated() (w opponents, err error) {
	if w.grid, err = g.plays(g.Clip, gameSamples); err != nil {
		return w, err
	}
	q := update.Question{Training: update.Training{Clip: g.Clip}, Weights: make([]float32, gameSamples)}
	if g.SkipClip {
		q.Clip *= 1e6
	}
	return w, w.ask(Learning{playing{g.Clip}}, q, 1)
}

// ask lets the clients of a game answer, the canary often times.
func (w *opponents) ask(c Clients, q query.Question, often int) error {
	sumOf := func(which []int) ([]int64, error) {
		sum, err := c.Sum(Round{release.Request{Query: q}, w.grid, which})
		return sum.Steps, err
	}
	others, alone := numeric.Indices(gameClients), slices.Repeat([]int{gameClients}, often)
	w.sum = func(canary bool) ([]int64, error) {
		if canary {
			return sumOf(slices.Concat(others, alone))
		}
		return sumOf(others)
	}
	base, err := sumOf(others)
	if err != nil {
		return err
	}
	moved, err := sumOf(alone)
	for i := range base {
		w.base, w.canary = append(w.base, w.grid.Value(base[i])), append(w.canary, w.grid.Value(moved[i]))
	}
	return err
}

// counted answer with counts. Without the scaling to the norm bound, the canary counts several times.
func (g Game) counted() (w opponents, err error) {
	q := counts.Question{Tokens: []int32{0, 1, 2, 3, 4, 5, 6}, Share: .7}
	if w.grid, err = g.plays(q.Bound(), q.Len()); err != nil {
		return w, err
	}
	often := 1
	if g.SkipClip {
		often = 5
	}
	return w, w.ask(Counting{spelling{}}, q, often)
}

// spelling are clients with made-up rows of tokens, more of them for each.
type spelling struct{}

func (spelling) N() int { return gameClients + 1 }

func (spelling) Rows(client int) [][]int32 {
	random := rng.New(1, "canary", "counts", strconv.Itoa(client))
	return [][]int32{numeric.Tabulate(10*(client+1), func(int) int32 { return int32(random.IntN(8)) })}
}

// playing are clients with made-up changes of up to three times a bound.
type playing struct{ bound float64 }

func (playing) N() int       { return gameClients + 1 }
func (playing) Workers() int { return 1 }

func (p playing) Each(q update.Question, which []int, use func(worker, client int, change []float64) error) error {
	for _, i := range which {
		random := rng.New(1, "canary", "update", strconv.Itoa(i))
		v := numeric.Tabulate(q.Len(), func(int) float64 { return random.NormFloat64() })
		length := 3 * p.bound * float64(i+1) / (gameClients + 1)
		for k, norm := 0, update.Norm(v); k < len(v); k++ {
			v[k] *= length / norm
		}
		if err := use(0, i, v); err != nil {
			return err
		}
	}
	return nil
}

// voted are teachers who all vote for token 0, enough of them that it is released nearly always. The canary is another
// such teacher, or the client by whose texts a teacher votes for token 0 instead of token 1.
func (g Game) voted() (w opponents, err error) {
	w.grid, err = noise.NewGrid(g.Sigma, g.Votes, gameSamples, 1<<20)
	if err != nil {
		return w, err
	}
	std := g.Sigma * w.grid.Sensitivity
	teachers := int64(math.Ceil(2*ensemble.Margin(std, gameSamples)+20*std)) + gameClients
	w.grid.Units = uint64(math.Ceil(float64(w.grid.Units) * g.NoiseFactor))
	q := ensemble.Question{Teachers: int(teachers), Vocab: gameSamples, Temperature: 1}
	w.sum = func(canary bool) ([]int64, error) {
		counts := make([]int64, gameSamples)
		counts[0] = teachers - 1
		switch {
		case canary && g.SkipClip: // it is in several teachers
			counts[0] += 5
		case canary:
			counts[0]++
		case g.Votes > 1:
			counts[1]++
		}
		sum, err := Teachers{histogram(counts)}.Sum(Round{Request: release.Request{Query: q}, Grid: w.grid})
		return sum.Steps, err
	}
	random := noise.Secure()
	w.choose = func(noised []float64) float64 {
		if out := q.Choose(noised, std, uniform(random)); out[0] == 0 {
			return out[1] - float64(teachers)
		}
		return -float64(teachers)
	}
	return w, nil
}

// ranked are clients who give one of the samples about as many votes as the noisy threshold has. The canary gives it
// another one. The attacker sees whether it is selected.
func (g Game) ranked() (w opponents, err error) {
	l := noise.LimitedDomain{Scale: g.Sigma * g.NoiseFactor, Domain: gameSamples / 2, Picks: g.Picks, Slack: g.Slack}
	random := noise.Secure()
	w.ranks = func(canary bool) (float64, error) {
		counts := make([]int64, gameSamples)
		counts[0] = int64(accountant.SelectionThreshold(g.Sigma*g.NoiseFactor, g.Slack, 1, l.Domain, len(counts)))
		switch {
		case canary && g.SkipClip: // it has several votes
			counts[0] += 20
		case canary:
			counts[0]++
		}
		selected, err := l.Select(random, counts)
		if slices.Contains(selected, 0) {
			return 1, err
		}
		return 0, err
	}
	return w, nil
}

// histogram are teachers with these votes.
type histogram []int64

func (histogram) N() int { return gameClients + 1 }

func (h histogram) Votes(ensemble.Question) ([]int64, error) { return h, nil }

func (g Game) validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("fedsim: canary game: "+format, args...))
	}
	asked := 0
	for _, is := range []bool{g.Ask != nil, g.Clip > 0, g.Counts, g.Votes > 0, g.Picks > 0} {
		if is {
			asked++
		}
	}
	if asked != 1 {
		fault("nothing is asked, or several kinds of questions")
	}
	if !(g.Sigma > 0) || math.IsInf(g.Sigma, 1) {
		fault("noise multiplier is %g, want more than 0", g.Sigma)
	}
	if g.Rounds < 1 {
		fault("%d rounds, want 1 or more", g.Rounds)
	}
	if g.Trials < 20 || g.Trials > 1<<24 {
		fault("%d trials, want 20 to %d", g.Trials, 1<<24)
	}
	if !(g.Confidence > 0 && g.Confidence < 1) {
		fault("confidence is %g, want more than 0 and less than 1", g.Confidence)
	}
	if !(g.NoiseFactor > 0 && g.NoiseFactor <= 1) {
		fault("noise factor is %g, want more than 0 and at most 1", g.NoiseFactor)
	}
	return errors.Join(faults...)
}

func above(values []float64, threshold float64) int {
	n := 0
	for _, v := range values {
		if v >= threshold {
			n++
		}
	}
	return n
}

// separation is the μ of the Gaussian release whose best test has at least these rates, with the given confidence:
// Φ⁻¹(TPR) − Φ⁻¹(FPR), of the lower and the upper Clopper-Pearson bound.
func (g Game) separation(truePositive, falsePositive, trials int) float64 {
	miss := (1 - g.Confidence) / 2
	low, high := numeric.ProbabilityAtLeast(truePositive, trials, miss), numeric.ProbabilityAtMost(falsePositive, trials, miss)
	unit := distuv.UnitNormal
	if low == 0 || high == 1 {
		return 0
	}
	return math.Max(0, unit.Quantile(low)-unit.Quantile(high))
}

func (g Game) bound(truePositive, falsePositive, trials int) (gaussian, free float64, err error) {
	if mu := g.separation(truePositive, falsePositive, trials); mu > 0 && g.Picks == 0 {
		if gaussian, err = (accountant.Exact{}).Epsilon([]accountant.Event{{Sigma: 1 / mu, Count: 1}}, g.Delta); err != nil {
			return 0, 0, err
		}
	}
	// Four bounds are used at once.
	miss := (1 - g.Confidence) / 4
	for _, c := range [][2]int{{truePositive, falsePositive}, {trials - falsePositive, trials - truePositive}} {
		low, high := numeric.ProbabilityAtLeast(c[0], trials, miss), numeric.ProbabilityAtMost(c[1], trials, miss)
		if low > g.Delta && high > 0 {
			free = math.Max(free, math.Log((low-g.Delta)/high))
		}
	}
	return gaussian, free, nil
}

// unitRows are fixed random directions. They come from no data.
func unitRows(name string, n int) embedding.Matrix {
	random := rng.New(1, "canary", name)
	m := embedding.NewMatrix(n, gameDim)
	for i := range n {
		row, squares := m.Row(i), 0.0
		for j := range row {
			row[j] = float32(random.NormFloat64())
			squares += float64(row[j]) * float64(row[j])
		}
		for j := range row {
			row[j] = float32(float64(row[j]) / math.Sqrt(squares))
		}
	}
	return m
}

// world is the made-up clients, each with one text of one of two labels in turn, for questions within labels.
func world() query.Clients {
	texts := unitRows("clients", gameClients+1)
	means := query.Means{Clients: texts.Rows, Dim: texts.Dim, Data: numeric.Convert[float64](texts.Data)}
	return query.Clients{Means: means, Texts: texts, Offsets: numeric.Indices(texts.Rows + 1),
		Labels: numeric.Tabulate(texts.Rows, func(i int) int32 { return int32(i % 2) })}
}
