package ensemble

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"popri/internal/rng"
	"popri/scoring/query"
)

var _ query.Choosing = Question{}

func logs(p []float64) []float32 {
	out := make([]float32, len(p))
	for j, x := range p {
		out[j] = float32(math.Log(x))
	}
	return out
}

// common are n teachers with a share alpha of their distribution in common, s over the first tokens, and the rest on
// one token of each.
func common(n int, s []float64, alpha float64) [][]float32 {
	out := make([][]float32, n)
	for i := range out {
		p := make([]float64, len(s)+n)
		for j, x := range s {
			p[j] = alpha * x
		}
		p[len(s)+i] = 1 - alpha
		out[i] = logs(p)
	}
	return out
}

// even is the uniform distribution over some tokens.
func even(tokens int) []float64 { return slices.Repeat([]float64{1 / float64(tokens)}, tokens) }

func histogram(teachers [][]float32, shared []float64) (counts []float64, votes []int32) {
	counts = make([]float64, len(teachers[0]))
	for _, p := range teachers {
		y := Vote(p, 1, shared)
		counts[y]++
		votes = append(votes, y)
	}
	return counts, votes
}

// majority is the limit, for many teachers, of the probability that more than half of them agree on a token in a
// coordinated vote, where they have a fraction alpha of their distributions in common and the rest is disjoint.
func majority(alpha float64) float64 { return 1 - math.Exp2(-alpha/(1-alpha)) }

// TestMajority: more than half of the teachers agree as often as the formula of the common part says, however wide that
// part is, and so do the limits of any other share θ and of the votes that a threshold there covers. In independent
// votes, the largest count is about the likeliest token's, and next to nothing where there are many.
func TestMajority(t *testing.T) {
	for alpha, want := range map[float64]float64{.05: .0358, .1: .0741, .25: .2063, .5: .5, .75: .875, .9: .998} {
		if got := majority(alpha); math.Abs(got-want) > 6e-5 {
			t.Errorf("α = %g: %g, want %g", alpha, got, want)
		}
	}
	const n, votes, cold = 300, 1500, 20
	for _, s := range [][]float64{{.6, .3, .1}, even(200)} {
		for _, alpha := range []float64{.25, .5, .75} {
			teachers := common(n, s, alpha)
			random := rng.New(1, "majority", strconv.Itoa(len(s)))
			thetas := []float64{.1, .25, .5, .75, .9}
			most, covered := make([]float64, len(thetas)), make([]float64, len(thetas)) // fractions of votes
			for range votes {
				counts, _ := histogram(teachers, sharedNoise(len(s)+n, nil, random))
				for k, theta := range thetas {
					above := 0.0
					for _, c := range counts {
						if c > theta*n {
							above += c
						}
					}
					covered[k] += above / (n * votes)
					if above > 0 {
						most[k] += 1. / votes
					}
				}
			}
			// For n teachers the limits are off by a few parts in n. Each is the mean of a share of a histogram.
			check := func(what string, theta, got, want float64) {
				if sd := math.Sqrt(want * (1 - want) / votes); math.Abs(got-want) > 4*sd+2./n {
					t.Errorf("%s θ = %g, α = %g of %d tokens: %.4f, want %.4f ± %.4f", what, theta, alpha, len(s), got,
						want, sd)
				}
			}
			for k, theta := range thetas {
				check("more than", theta, most[k], 1-math.Pow(theta, alpha/(1-alpha)))
				check("coverage", theta, covered[k], alpha*(1-math.Pow(theta, 1/(1-alpha))))
			}
			largest := 0.0
			for range cold {
				counts := make([]float64, len(s)+n)
				for _, p := range teachers {
					counts[Draw(p, 1, nil, random.Float64())]++
				}
				largest += slices.Max(counts) / cold
			}
			// The luckiest of many equal tokens has a few votes more than each has on average.
			if want := n * alpha * slices.Max(s); math.Abs(largest-want) > 4*math.Sqrt(want/cold)+5 {
				t.Errorf("α = %g of %d tokens: the largest independent count is %g on average, want about %g", alpha,
					len(s), largest, want)
			}
		}
	}
}

// TestCommonPart: given the y ~ Exp(α) of the common part's winner, its count is binomial, with the chance e^(−y(1−α))
// of each teacher: mean and variance agree where that chance is small, middling and large.
func TestCommonPart(t *testing.T) {
	const n, wide, votes = 100, 20, 6000
	for _, alpha := range []float64{.25, .5, .75} {
		teachers, random := common(n, even(wide), alpha), rng.New(8, "common part")
		var off, spread, variance, fourth [3]float64 // sums over the votes of each third of the chances
		for range votes {
			shared := sharedNoise(wide+n, nil, random)
			counts, _ := histogram(teachers, shared)
			winner := 0
			for j := range wide {
				if shared[j] > shared[winner] {
					winner = j
				}
			}
			y := math.Exp(-shared[winner]) * wide / alpha
			p := math.Exp(-y * (1 - alpha))
			v, d := n*p*(1-p), counts[winner]-n*p
			k := min(2, int(3*p))
			off[k], spread[k], variance[k] = off[k]+d, spread[k]+d*d, variance[k]+v
			fourth[k] += v + 3*(n-2)*p*(1-p)*v - v*v // the variance of d²
		}
		for k := range off {
			if variance[k] == 0 || math.Abs(off[k]) > 4*math.Sqrt(variance[k]) ||
				math.Abs(spread[k]-variance[k]) > 4*math.Sqrt(fourth[k]) {
				t.Errorf("α = %g, third %d: counts are off by %g ± %g in all, with squares %g, want %g ± %g", alpha, k,
					off[k], math.Sqrt(variance[k]), spread[k], variance[k], math.Sqrt(fourth[k]))
			}
		}
	}
}

// chi is the probability of a χ² statistic as large as the statistic of counts with these expectations.
func chi(t *testing.T, counts map[int32]int, p []float64, n int) float64 {
	t.Helper()
	statistic, cells := 0.0, 0
	for j, x := range p {
		if x == 0 {
			if counts[int32(j)] > 0 {
				t.Errorf("token %d of probability 0 is chosen", j)
			}
			continue
		}
		d := float64(counts[int32(j)]) - x*float64(n)
		statistic += d * d / (x * float64(n))
		cells++
	}
	return 1 - distuv.ChiSquared{K: float64(cells - 1)}.CDF(statistic)
}

// TestMarginals: each teacher's vote has its own distribution, in both kinds of votes, at a temperature and without
// banned tokens.
func TestMarginals(t *testing.T) {
	logits := []float32{2, 0, 1, -1, 0.5, 3}
	for _, c := range []struct {
		temperature float64
		banned      []int32
	}{{1, nil}, {2, nil}, {.7, []int32{5, 1}}} {
		want := probabilities(logits, c.temperature, c.banned)
		random, hot, cold := rng.New(2, "marginals"), map[int32]int{}, map[int32]int{}
		const n = 40000
		for range n {
			hot[Vote(logits, c.temperature, sharedNoise(6, c.banned, random))]++
			cold[Draw(logits, c.temperature, c.banned, random.Float64())]++
		}
		if a, b := chi(t, hot, want, n), chi(t, cold, want, n); a < 1e-4 || b < 1e-4 {
			t.Errorf("%+v: p-values %g and %g", c, a, b)
		}
	}
	if got := Vote([]float32{float32(math.NaN())}, 1, []float64{0}); got != -1 {
		t.Errorf("no number votes for %d", got)
	}
}

// TestAgreement: two teachers agree on a token as often as the exact formula says, .3538 in all here, which is more
// than the paper's claim 2, .25.
func TestAgreement(t *testing.T) {
	p, q := []float64{.7, .2, .1}, []float64{.1, .3, .6}
	exact := agreement(p, q)
	if sum := exact[0] + exact[1] + exact[2]; math.Abs(sum-.3538) > 1e-4 || math.Abs(exact[1]-.1538) > 1e-4 {
		t.Errorf("agreement %v, sum %g, want .3538", exact, sum)
	}
	a, b, random, n := logs(p), logs(q), rng.New(3, "agreement"), 60000
	counts, claimed := make([]float64, 3), 0.0
	for range n {
		u := sharedNoise(3, nil, random)
		if x, y := Vote(a, 1, u), Vote(b, 1, u); x == y {
			counts[x]++
		}
	}
	for j := range p {
		low := 0.0
		for h := range p {
			low += math.Max(p[h], q[h])
		}
		low = math.Min(p[j], q[j]) / low
		claimed += low
		sd := math.Sqrt(exact[j] * (1 - exact[j]) / float64(n))
		if got := counts[j] / float64(n); math.Abs(got-exact[j]) > 4*sd || low > exact[j]+1e-12 ||
			exact[j] < math.Min(p[j], q[j])/2 {
			t.Errorf("token %d: %g, exact %g, claim 2 %g", j, got, exact[j], low)
		}
	}
	if math.Abs(claimed-.25) > 1e-12 {
		t.Errorf("claim 2 adds up to %g, want .25", claimed)
	}
}

func randomTeachers(random *rand.Rand, n, tokens int) [][]float64 {
	out := make([][]float64, n)
	base := make([]float64, tokens)
	for j := range base {
		base[j] = 2 * random.NormFloat64()
	}
	for i := range out {
		out[i] = make([]float64, tokens)
		sum := 0.0
		for j := range out[i] {
			out[i][j] = math.Exp(base[j] + random.NormFloat64())
			sum += out[i][j]
		}
		for j := range out[i] {
			out[i][j] /= sum
		}
	}
	return out
}

// TestOneTeacherMovesOneVote: for every shared randomness, another teacher changes two counts by 1 at most, and one
// that abstains one.
func TestOneTeacherMovesOneVote(t *testing.T) {
	random := rng.New(4, "moves")
	for range 200 {
		n, tokens := 2+random.IntN(20), 2+random.IntN(30)
		var teachers [][]float32
		for _, p := range randomTeachers(random, n, tokens) {
			teachers = append(teachers, logs(p))
		}
		u := sharedNoise(tokens, nil, random)
		before, _ := histogram(teachers, u)
		without, _ := histogram(teachers[1:], u)
		teachers[0] = logs(randomTeachers(random, 1, tokens)[0])
		after, _ := histogram(teachers, u)
		moved := func(a, b []float64) (l1, squares float64) {
			for j := range a {
				d := a[j] - b[j]
				l1, squares = l1+math.Abs(d), squares+d*d
			}
			return l1, squares
		}
		if l1, squares := moved(before, after); l1 > 2 || math.Sqrt(squares) > Bound(true) {
			t.Fatalf("another teacher moves the histogram by %g, %g", l1, math.Sqrt(squares))
		}
		if l1, squares := moved(before, without); l1 != 1 || math.Sqrt(squares) > Bound(false) {
			t.Fatalf("a teacher that abstains moves the histogram by %g", l1)
		}
	}
}

// TestCounts: the mean count of a token is the sum of its probabilities. A token that many teachers find likely gets
// many votes with the chances of lemmas 1 and 2, and the filter at half of τ is diversity preserving with β = .34 and γ
// = 2 (theorem 1).
func TestCounts(t *testing.T) {
	const n, tokens, votes = 60, 12, 4000
	random := rng.New(5, "counts")
	p := randomTeachers(random, n, tokens)
	var teachers [][]float32
	for _, x := range p {
		teachers = append(teachers, logs(x))
	}
	mean, all := make([]float64, tokens), make([][]float64, votes)
	for v := range all {
		all[v], _ = histogram(teachers, sharedNoise(tokens, nil, random))
		for j, c := range all[v] {
			mean[j] += c / votes
		}
	}
	const slack = 4 * .5 / 63 // four standard deviations of a share of 4000 votes
	for j := range tokens {
		column, sum := []float64{}, 0.0
		for i := range p {
			column, sum = append(column, p[i][j]), sum+p[i][j]
		}
		if math.Abs(mean[j]-sum) > n*slack {
			t.Errorf("token %d has %g votes on average, want %g", j, mean[j], sum)
		}
		share := func(least float64) (share, passed float64) {
			for _, c := range all {
				if c[j] >= least {
					share, passed = share+1./votes, passed+c[j]/votes/n
				}
			}
			return share, passed
		}
		for _, least := range []float64{1, 5, 20, 45} {
			if got, _ := share(least); got > sum/least+slack {
				t.Errorf("token %d has %g votes in %g of the histograms, lemma 2 allows %g", j, least, got, sum/least)
			}
		}
		for _, q := range []float64{.02, .1, .3} {
			c := 0.0
			for _, x := range column {
				if x >= q {
					c++
				}
			}
			if c == 0 {
				continue
			}
			for _, part := range []float64{.3, .5, .8} {
				if got, _ := share(math.Floor(part * c)); got < math.Log(1/part)*q/2-slack {
					t.Errorf("token %d: %g of %g teachers agree in %g of the histograms, lemma 1 has %g", j, part, c,
						got, math.Log(1/part)*q/2)
				}
			}
			if got := first(share(c / 2)); got.passed < .34*c/n*q-slack || got.passed > 2*sum/n+slack {
				t.Errorf("token %d passes with %g, theorem 1 has %g to %g", j, got.passed, .34*c/n*q, 2*sum/n)
			}
		}
	}
}

type passing struct{ passed float64 }

func first(_, passed float64) passing { return passing{passed} }

// TestEqualTeachers: where all teachers are equal, a token is always released, and its law is their distribution.
func TestEqualTeachers(t *testing.T) {
	p := []float64{.4, .3, .2, .05, .05}
	for _, heterogeneous := range []bool{false, true} {
		r := Rule{Teachers: 40, Margin: Margin(.5, len(p)), Heterogeneous: heterogeneous}
		teachers := make([][]float32, r.Teachers)
		for i := range teachers {
			teachers[i] = logs(p)
		}
		random, counts, n := rng.New(6, "equal"), map[int32]int{}, 20000
		for range n {
			c, _ := histogram(teachers, sharedNoise(len(p), nil, random))
			token, count := r.Choose(c, random.Float64())
			if token == None || count != 40 {
				t.Fatalf("equal teachers release %d with %g", token, count)
			}
			counts[int32(token)]++
		}
		if x := chi(t, counts, p, n); x < 1e-4 {
			t.Errorf("heterogeneous %v: p-value %g", heterogeneous, x)
		}
	}
}

// TestDisjointTeachers: teachers that have nothing in common never release a token, noise included.
func TestDisjointTeachers(t *testing.T) {
	const n = 50
	random := rng.New(7, "disjoint")
	sigma := 2.0
	for _, heterogeneous := range []bool{false, true} {
		r := Rule{Teachers: n, Margin: Margin(sigma, n), Heterogeneous: heterogeneous}
		for range 500 {
			counts, _ := histogram(common(n, nil, 0), sharedNoise(n, nil, random))
			for j := range counts {
				if counts[j] != 1 {
					t.Fatal("a token has more than one vote")
				}
				counts[j] += sigma * math.Max(-4, math.Min(4, random.NormFloat64())) // within the margin
			}
			if token, _ := r.Choose(counts, random.Float64()); token != None {
				t.Fatalf("heterogeneous %v: token %d is released", heterogeneous, token)
			}
		}
	}
}

// TestHeterogeneous: a token is drawn in proportion to its count, and none otherwise.
func TestHeterogeneous(t *testing.T) {
	r := Rule{Teachers: 100, Margin: 5, Heterogeneous: true}
	for u, want := range map[float64]int{0: 0, .29: 0, .3: 2, .69: 2, .7: None, .99: None} {
		if got, count := r.Choose([]float64{30, 9.9, 40, -3, 0}, u); got != want || want == 0 && count != 30 {
			t.Errorf("u = %g: %d, want %d", u, got, want)
		}
	}
	if got, _ := r.Choose([]float64{90, 60}, .61); got != 1 { // more than there are teachers, by noise
		t.Errorf("%d, want 1", got)
	}
	if r.Threshold() != 10 || (Rule{Teachers: 100, Margin: 5}).Threshold() != 55 {
		t.Error("thresholds")
	}
}

// TestQuestion: what decides the votes or the choice changes the key or the name, and the randomness of each vote is
// its own.
func TestQuestion(t *testing.T) {
	base := Question{Teachers: 10, Vocab: 20, Coordinated: true, Temperature: 1, Seed: 1, Round: 1, Part: 1}
	seen := map[string]bool{}
	for _, change := range []func(*Question){func(*Question) {}, func(q *Question) { q.Part++ },
		func(q *Question) { q.Round++ },
		func(q *Question) { q.Prefix = []int32{1} }, func(q *Question) { q.Banned = []int32{1} },
		func(q *Question) { q.Teachers++ },
		func(q *Question) { q.Heterogeneous = true }, func(q *Question) { q.Shared = true },
		func(q *Question) { q.Model = "x" },
		func(q *Question) { q.Temperature = .5 }, func(q *Question) { q.Coordinated = false },
		func(q *Question) { q.Text = 3 }} {
		q := base
		change(&q)
		id := q.Name() + q.Key()
		if seen[id] || !Named(q.Name()) {
			t.Errorf("%+v is taken for another question", q)
		}
		seen[id] = true
	}
	other := base
	other.Part = 2
	if slices.Equal(base.Randomness(), other.Randomness()) || base.Uniform(0) == base.Uniform(1) ||
		base.Uniform(0) == other.Uniform(0) {
		t.Error("two votes have the same randomness")
	}
	if !slices.Equal(base.Randomness(), base.Randomness()) || base.Bound() != 1 || base.Len() != 20 ||
		base.Chosen() != 2 {
		t.Error("a question changes")
	}
	counts := make([]float64, 20)
	if counts[7] = 5 + Margin(.5, 20) + .01; !slices.Equal(base.Choose(counts, .5, 0), []float64{7, counts[7]}) {
		t.Errorf("the choice is %v", base.Choose(counts, .5, 0))
	}
	if counts[7] -= .02; !slices.Equal(base.Choose(counts, .5, 0), []float64{None, 0}) {
		t.Errorf("the choice is %v", base.Choose(counts, .5, 0))
	}
}

// agreement is the probability that two teachers both vote for each token in a coordinated vote: 1 / Σ_h max(p_h/p_j,
// q_h/q_j). Its sum is the probability Jaccard similarity of p and q. The paper's claim 2 has min(p_j, q_j) / Σ_h
// max(p_h, q_h), which is a lower bound of it.
func agreement(p, q []float64) []float64 {
	out := make([]float64, len(p))
	for j := range p {
		if p[j] == 0 || q[j] == 0 {
			continue
		}
		sum := 0.0
		for h := range p {
			sum += math.Max(p[h]/p[j], q[h]/q[j])
		}
		out[j] = 1 / sum
	}
	return out
}
