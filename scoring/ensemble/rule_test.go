package ensemble

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"popri/accountant"
	"popri/internal/rng"
)

// TestMargin: √(2 ln(2·20/.05)) = √(2·6.6846) = 3.6564 standard deviations bound 20 noises, which go beyond it in a
// share of [miss] of the votes at most; so it is for 1000.
func TestMargin(t *testing.T) {
	if got := Margin(2, 20); math.Abs(got-2*3.6564) > 1e-4 {
		t.Errorf("the margin of 20 noises is %g", got)
	}
	const sigma, votes = 3, 4000
	for _, n := range []int{20, 1000} {
		random, margin, missed := rng.New(10, "margin"), Margin(sigma, n), 0.0
		for range votes {
			most := 0.0
			for range n {
				most = math.Max(most, math.Abs(sigma*random.NormFloat64()))
			}
			if most > margin {
				missed += 1. / votes
			}
		}
		if missed > miss+4*math.Sqrt(miss*(1-miss)/votes) {
			t.Errorf("%g of the votes have noise beyond the margin of %d noises", missed, n)
		}
	}
}

// TestDiversityWithNoise: with noise of at most L on each count, the rules are diversity preserving as algorithms 2 and
// 3 say for a μ above 1. Where c ≥ τ teachers give a token q or more, it is released with β·(c/n)·q or more, and no
// token with more than γ times its mean probability. Algorithm 2's τ is n or less for μ below 2 alone.
func TestDiversityWithNoise(t *testing.T) {
	const n, tokens, votes, sigma = 60, 12, 20000, .5
	margin, random := Margin(sigma, tokens), rng.New(9, "diversity")
	for _, r := range []Rule{{n, margin, false}, {n, margin, true}} {
		for _, mu := range []float64{1.5, 2} {
			tau, beta, gamma := mu*r.Threshold(), math.Log(mu)/(2*mu), 1.
			if !r.Heterogeneous {
				tau, beta, gamma = mu*(r.Threshold()+margin), math.Log(mu)/2, 2
			}
			least := int(math.Ceil(tau))
			promises := 0 // that are more than chance
			for _, p := range [][][]float64{randomTeachers(random, n, tokens), agreeing(n, least, .5)} {
				for j, got := range shares(r, p, sigma, votes, random) {
					column, sum, promised := []float64{}, 0.0, 0.0
					for _, x := range p {
						column, sum = append(column, x[j]), sum+x[j]
					}
					slices.SortFunc(column, func(a, b float64) int { return cmp.Compare(b, a) })
					for c := least; c <= n; c++ {
						promised = math.Max(promised, beta*float64(c)/n*column[c-1])
					}
					slack := 4 * math.Sqrt(math.Max(got, 1./votes)/votes)
					if got < promised-slack || got > gamma*sum/n+slack {
						t.Errorf("%+v, μ = %g: token %d is released with %g, promised are %g to %g", r, mu, j, got,
							promised, gamma*sum/n)
					}
					if promised > slack {
						promises++
					}
				}
			}
			if (promises > 0) != (least <= n) {
				t.Errorf("%+v, μ = %g: %d promises where %d of %d teachers need to agree", r, mu, promises, least, n)
			}
		}
	}
}

// agreeing are n teachers of whom the first c give token 0 the probability q; all else is on one token of each.
func agreeing(n, c int, q float64) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, 1+n)
		out[i][1+i] = 1
		if i < c {
			out[i][0], out[i][1+i] = q, 1-q
		}
	}
	return out
}

// shares are the shares of coordinated votes with clamped Gaussian noise in which a rule releases each token.
func shares(r Rule, p [][]float64, sigma float64, votes int, random *rand.Rand) []float64 {
	var teachers [][]float32
	for _, x := range p {
		teachers = append(teachers, logs(x))
	}
	out := make([]float64, len(p[0]))
	for range votes {
		counts, _ := histogram(teachers, sharedNoise(len(out), nil, random))
		for j := range counts {
			counts[j] += math.Max(-r.Margin, math.Min(r.Margin, sigma*random.NormFloat64()))
		}
		if token, _ := r.Choose(counts, random.Float64()); token != None {
			out[token] += 1 / float64(votes)
		}
	}
	return out
}

// released is the law of what a rule releases, token and noised count, by definition: over all noises of a discrete
// Gaussian of parameter sigma on each count, and over u. Noised counts are whole numbers, so that the choice is the
// same within each of some equal parts of u's range.
func released(r Rule, counts []int, sigma float64) map[[2]float64]float64 {
	reach, total := int(9*sigma), 0.0
	density := func(k int) float64 { return math.Exp(-float64(k*k) / (2 * sigma * sigma)) }
	for k := -reach; k <= reach; k++ {
		total += density(k)
	}
	out := map[[2]float64]float64{}
	var walk func(noised []float64, p float64)
	walk = func(noised []float64, p float64) {
		if j := len(noised); j < len(counts) {
			for k := -reach; k <= reach; k++ {
				walk(append(noised, float64(counts[j]+k)), p*density(k)/total)
			}
			return
		}
		parts := 1
		if r.Heterogeneous {
			above := 0
			for _, c := range noised {
				if c >= r.Threshold() {
					above += int(c)
				}
			}
			parts = max(r.Teachers, above)
		}
		for k := range parts {
			token, count := r.Choose(noised, (float64(k)+.5)/float64(parts))
			out[[2]float64{float64(token), count}] += p / float64(parts)
		}
	}
	walk(nil, 1)
	return out
}

// TestReleasesByEnumeration: for every histogram of a few teachers and all its neighbours, the exact δ of the token and
// count that are released, or of none, is within the δ of a sum in which one count moves by 1, where a teacher
// abstains, or two counts do, where it votes otherwise. The shared randomness of coordinated votes is public: teachers
// that are neighbours have such histograms for every value of it, and δ is a mean over these values.
func TestReleasesByEnumeration(t *testing.T) {
	for _, c := range []struct {
		tokens, teachers int
		sigma            float64
	}{{2, 9, 1}, {2, 14, 2}, {3, 7, 1}} {
		epsilons, said := []float64{.05, .3, 1, 2}, map[int][]float64{}
		for _, epsilon := range epsilons {
			for moved, a := range map[int]accountant.Accountant{1: accountant.Exact{Relation: accountant.ZeroOut},
				2: accountant.PLD{Relation: accountant.ZeroOut}} {
				delta, err := a.Delta([]accountant.Event{{Mechanism: accountant.DiscreteGaussian, Sigma: c.sigma,
					Count: moved}}, epsilon)
				if err != nil {
					t.Fatal(err)
				}
				said[moved] = append(said[moved], delta)
			}
		}
		for _, heterogeneous := range []bool{false, true} {
			r, laws := Rule{c.teachers, Margin(c.sigma, c.tokens), heterogeneous}, map[string]map[[2]float64]float64{}
			law := func(counts []int) map[[2]float64]float64 {
				name := fmt.Sprint(counts)
				if laws[name] == nil {
					laws[name] = released(r, counts, c.sigma)
				}
				return laws[name]
			}
			tight := map[int]float64{}
			compare := func(counts, other []int, moved int) {
				for i, epsilon := range epsilons {
					found := max(hockey(law(counts), law(other), epsilon), hockey(law(other), law(counts), epsilon))
					if found > said[moved][i]+1e-12 {
						t.Fatalf("%+v of %v and %v at ε = %g: δ is %g, said %g", r, counts, other, epsilon, found,
							said[moved][i])
					}
					tight[moved] = max(tight[moved], found/said[moved][i])
				}
			}
			for _, counts := range votesOf(c.teachers, c.tokens) {
				for a := range counts {
					other := slices.Clone(counts)
					if other[a]--; other[a] < 0 {
						continue
					}
					compare(counts, other, 1)
					for b := range counts {
						if b != a {
							moved := slices.Clone(other)
							moved[b]++
							compare(counts, moved, 2)
						}
					}
				}
			}
			t.Logf("%+v: δ is at most %.3f of what is said where a teacher abstains, %.3f where it votes otherwise", r,
				tight[1], tight[2])
			if tight[1] < .99 || tight[2] < .6 {
				t.Errorf("%+v: the test tests little", r)
			}
		}
	}
}

// votesOf are all histograms of n votes over some tokens.
func votesOf(n, tokens int) (out [][]int) {
	if tokens == 1 {
		return [][]int{{n}}
	}
	for first := range n + 1 {
		for _, rest := range votesOf(n-first, tokens-1) {
			out = append(out, append([]int{first}, rest...))
		}
	}
	return out
}

// hockey is the δ of two laws at ε, in the direction of the first.
func hockey(p, q map[[2]float64]float64, epsilon float64) (delta float64) {
	for o, x := range p {
		delta += max(0, x-math.Exp(epsilon)*q[o])
	}
	return delta
}
