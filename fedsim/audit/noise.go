package audit

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/mathext"

	"popri/accountant"
	"popri/fedsim/release"
	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/counts"
	"popri/scoring/ensemble"
	"popri/scoring/update"
)

// Round is what a round's clients were asked about.
type Round struct {
	Samples embedding.Matrix // the samples' vectors, one a row
	Key     string           // of the samples and their encoder, as in the release
}

// NoiseTest compares the noise of a release with the charged noise. Every true sum is in the span of the samples'
// vectors, so the part of a release outside of the span is noise alone. For n values and a span of r dimensions, the
// squared length of that part, divided by the noise's variance, is χ²-distributed with n − r degrees of freedom. The
// test needs the samples, the encoder and the release only. It does not detect a forger who knows the clients' texts
// and adds noise outside of the span but none inside.
type NoiseTest struct {
	Round     int     `json:"round,omitempty"` // 0 for all releases together
	Samples   int     `json:"samples"`
	Rank      int     `json:"rank"`
	Freedom   int     `json:"degrees_of_freedom"`
	Statistic float64 `json:"statistic"`
	// Ratio is the measured standard deviation of the noise over the charged one.
	Ratio float64 `json:"ratio"`
	// Less and More are the probabilities of a statistic as small and as large as this one, if the noise is as charged.
	Less float64 `json:"p_less"`
	More float64 `json:"p_more"`
	// Level is the probability below which the test rejects, on either side.
	Level float64 `json:"level"`
	// Finds is the power of the test: it detects noise of this ratio to the charged noise, or less, with a probability
	// of 99 %.
	Finds float64 `json:"finds_ratio"`
	// seen says that the noise was looked at without such a measurement: for a lack of it.
	seen bool
}

const (
	// falseAlarms is the probability that an honest run fails any of its noise tests. It is so small that a failure
	// means a problem.
	falseAlarms = 1e-6
	// power is the probability that [NoiseTest.Finds] refers to.
	power = 0.99
)

// tooLittle and tooMuch report a statistic that the charged noise does not give.
func (n NoiseTest) tooLittle() bool { return n.Less < n.Level }
func (n NoiseTest) tooMuch() bool   { return n.More < n.Level }

// judge computes the fields that follow from the statistic, for one of the given number of tests.
func (n *NoiseTest) judge(tests int) {
	freedom := float64(n.Freedom)
	n.Level = falseAlarms / 2 / float64(tests)
	n.Ratio = math.Sqrt(n.Statistic / freedom)
	n.Less, n.More = mathext.GammaIncReg(freedom/2, n.Statistic/2), mathext.GammaIncRegComp(freedom/2, n.Statistic/2)
	n.Finds = math.Sqrt(chiQuantile(freedom, n.Level) / chiQuantile(freedom, power))
}

// chiQuantile inverts the χ² distribution function by bisection. (The library's inverse gives up at tiny
// probabilities.)
func chiQuantile(freedom, p float64) float64 {
	low, _ := numeric.Bisect(0, freedom+20*math.Sqrt(2*freedom)+100,
		func(x float64) bool { return mathext.GammaIncReg(freedom/2, x/2) < p })
	return low
}

// testNoise tests the releases, each and all together.
func (r *Report) testNoise(rounds func(round int) (Round, error)) error {
	if rounds == nil {
		rounds = func(int) (Round, error) { return Round{}, errors.New("the samples' vectors were not given") }
	}
	untested, counted := reasons{}, r.wholeCounts()
	for _, f := range r.found {
		if !(f.release.Sigma > 0) {
			untested.add("it states no noise, so that there is nothing to test", f.release.Round)
			continue
		}
		n, why, err := r.noiseOf(f, rounds)
		if err != nil {
			return err
		}
		if why != "" {
			untested.add(why, f.release.Round)
			r.Unmeasured = r.Unmeasured || !(n.seen || f.release.Chosen && counted)
			continue
		}
		r.Noise = append(r.Noise, n)
	}
	r.NoiseUntested = untested.words()
	pooled := NoiseTest{}
	for i := range r.Noise {
		n := &r.Noise[i]
		n.judge(len(r.Noise) + 1)
		pooled.Samples, pooled.Rank, pooled.Freedom = pooled.Samples+n.Samples, pooled.Rank+n.Rank,
			pooled.Freedom+n.Freedom
		pooled.Statistic += n.Statistic
		r.reject(fmt.Sprintf("The noise of round %d", n.Round), *n)
	}
	if len(r.Noise) > 0 {
		pooled.judge(len(r.Noise) + 1)
		r.NoisePooled = &pooled
		r.reject("The noise of all releases together", pooled)
	}
	return nil
}

// reject adds a problem for a test that failed.
func (r *Report) reject(what string, n NoiseTest) {
	switch {
	case n.tooLittle():
		r.problem("%s is %s of what was to be added, in the part that no true sum reaches: with that noise, so "+
			"little has a probability of %.2g.",
			what, accountant.RoundUp(n.Ratio, 3), n.Less)
	case n.tooMuch():
		r.problem("%s is %s times what was to be added, in the part that no true sum reaches: with that noise, so "+
			"much has a probability of %.2g. "+
			"The release is not a sum of such vectors.", what, accountant.RoundDown(n.Ratio, 3), n.More)
	}
}

// spanned is a query whose sums have more values than dimensions.
type spanned interface {
	Project(noised []float64) ([]float64, error)
	Len() int
	Rank() int
}

// noiseOf measures the part of a release outside the span of the samples. why gives the reason where that is
// impossible.
func (r *Report) noiseOf(f foundRelease, rounds func(round int) (Round, error)) (n NoiseTest, why string, err error) {
	found := f.release
	if found.Chosen {
		return n, "only a choice was released, which does not show the noise of the sum that it was made by", nil
	}
	if checked, ok, err := scoring.CheckedOf(found.Query, len(found.Sum)); err != nil {
		r.problem("%s: %v.", f.name, err)
		return n, otherSamples, nil
	} else if ok {
		return outside(found, checked)
	}
	if update.Named(found.Query) || counts.Named(found.Query) {
		return NoiseTest{seen: true}, r.nearZero(f), nil
	}
	round, err := rounds(found.Round)
	if err != nil {
		return n, err.Error(), nil
	}
	asked, err := scoring.Ask(found.Query, found.Bound, round.Samples, found.Key)
	if err != nil {
		return n, err.Error(), nil
	}
	samples, ok := asked.(spanned)
	if !ok {
		return NoiseTest{seen: true}, r.nearZero(f), nil
	}
	if why := r.otherKey(f, round); why != "" {
		return n, why, nil
	}
	if round.Samples.Rows != len(found.Sum) {
		r.problem("%s has %d values, and its round has %d samples.", f.name, len(found.Sum), round.Samples.Rows)
		return n, otherSamples, nil
	}
	return outside(found, samples)
}

// outside measures the part of a release outside of the space of true sums.
func outside(found *release.Release, q spanned) (n NoiseTest, why string, err error) {
	inside, err := q.Project(found.Sum)
	if err != nil {
		return n, "", err
	}
	n = NoiseTest{Round: found.Round, Samples: q.Len(), Rank: q.Rank()}
	if n.Freedom = n.Samples - n.Rank; n.Freedom < 1 {
		return n, fmt.Sprintf("its %d values span all %d dimensions, so that no part is noise alone", n.Samples,
			n.Rank), nil
	}
	for i, y := range found.Sum {
		outside := (y - inside[i]) / found.NoiseStd()
		n.Statistic += outside * outside
	}
	return n, "", nil
}

// nearZero looks for a lack of noise in a release whose true sum may be anything, and says what it can see. Whatever is
// added to normal noise, it is nowhere nearer to zero more often than alone (Anderson 1955), so the number of values
// within a distance has at most a binomial distribution. Less noise on a sum most of whose values are small shows.
func (r *Report) nearZero(f foundRelease) string {
	n, std, least := float64(len(f.release.Sum)), f.release.NoiseStd(), 1.0
	distances := []float64{1.0 / 64, 1.0 / 8, 0.6745} // of the standard deviation; noise is within the last with probability 1/2
	for _, d := range distances {
		near := 0.0
		for _, y := range f.release.Sum {
			if math.Abs(y) <= d*std {
				near++
			}
		}
		p := atLeast(near, n, math.Erf(d/math.Sqrt2)+f.release.Step/std)
		if least = min(least, p*float64(len(distances))); p < falseAlarms/float64(2*len(distances)*len(r.found)) {
			r.problem("%s has less noise than was to be added: %.3g of its %d values are within %.3g standard deviations of "+
				"zero, of which that noise alone gives %.3g at most (p = %.2g).", f.name, near/n,
				len(f.release.Sum), d, math.Erf(d/math.Sqrt2), p)
			break
		}
	}
	return fmt.Sprintf("sums of the query %s fill the whole space, so that only a lack of noise on small values could be "+
		"seen (p = %.2g)", f.release.Query, least)
}

// wholeCounts looks at counts that were released with the choice that they decided: true counts are whole, those with
// noise hardly ever. It reports whether there are any.
func (r *Report) wholeCounts() bool {
	whole, n, step := 0.0, 0.0, 0.0
	for _, f := range r.found {
		if c := f.release; ensemble.Named(c.Query) && len(c.Sum) == 2 && c.Sum[0] != ensemble.None && c.Sigma > 0 {
			n, step = n+1, max(step, c.Step)
			if c.Sum[1] == math.Round(c.Sum[1]) {
				whole++
			}
		}
	}
	if p := atLeast(whole, n, min(1, 2*step)); n > 0 && p < falseAlarms/2 {
		r.problem("Of %g released counts, %g are whole numbers: the charged noise is on a grid of %g, and this count has a "+
			"probability of %.2g.", n, whole, step, p)
	}
	return n > 0
}

// atLeast is the probability of k or more of n, each with probability p.
func atLeast(k, n, p float64) float64 {
	switch {
	case k == 0 || p >= 1:
		return 1
	case p <= 0:
		return 0
	}
	return mathext.RegIncBeta(k, n-k+1, p)
}

// otherKey compares the samples and the encoder with the release's. Other samples are a contradiction; another encoder,
// as on another machine, only leaves the noise untested.
func (r *Report) otherKey(f foundRelease, round Round) (why string) {
	if f.release.Key == round.Key {
		return ""
	}
	samples, encoder, _ := strings.Cut(f.release.Key, " ")
	here, now, _ := strings.Cut(round.Key, " ")
	if samples != here {
		r.problem("%s was made for other samples than those next to it: they were changed afterwards.", f.name)
		return otherSamples
	}
	return fmt.Sprintf("the encoder is not the one of the run: %s here, %s then", now, encoder)
}

// NoiseWords says in plain words what the noise tests show.
func (r *Report) NoiseWords() []string {
	var out []string
	if p := r.NoisePooled; p != nil {
		out = append(out, fmt.Sprintf("The noise was measured where it can be told from the clients' vectors, "+
			"in the part of a release that no true sum reaches: over %s, "+
			"with %d degrees of freedom, its standard deviation is %.4g of the planned one (p = %.3g).",
			quote.Count(len(r.Noise), "release", ""), p.Freedom, p.Ratio, min(1, 2*min(p.Less, p.More))),
			fmt.Sprintf("Noise of %s of the planned one, or less, would have been found with a probability of 99 %% "+
				"(%s in a single release); "+
				"a run with the planned noise fails with a probability of %g.",
				accountant.RoundDown(p.Finds, 3), r.single(), float64(falseAlarms)),
			"Who forges a release and has the clients' texts can evade this test: the noise in the rest is not "+
				"measured.")
	}
	for _, why := range r.NoiseUntested {
		out = append(out, fmt.Sprintf("The noise was not measured of %s.", why))
	}
	return out
}

// single is the best ratio that the tests of single releases detect.
func (r *Report) single() string {
	least := math.Inf(1)
	for _, n := range r.Noise {
		least = min(least, n.Finds)
	}
	return accountant.RoundDown(least, 3)
}

const otherSamples = "its release is for other samples"

// reasons are the reasons why the noise of some rounds is untested, in the order of their first occurrence.
type reasons []struct {
	why    string
	rounds []string
}

func (l *reasons) add(why string, round int) {
	for i := range *l {
		if (*l)[i].why == why {
			(*l)[i].rounds = append((*l)[i].rounds, fmt.Sprint(round))
			return
		}
	}
	*l = append(*l, struct {
		why    string
		rounds []string
	}{why, []string{fmt.Sprint(round)}})
}

func (l reasons) words() []string {
	var out []string
	for _, reason := range l {
		word := quote.Plural(len(reason.rounds), "round", "")
		out = append(out, word+" "+strings.Join(reason.rounds, ", ")+": "+reason.why)
	}
	return out
}

// foundRelease is a release on disk that has its charge.
type foundRelease struct {
	name    string
	release *release.Release
}
