package noise

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"popri/internal/rng"
)

// words gives what it holds, and then zeros.
type words []uint64

func (w *words) Uint64() uint64 {
	if len(*w) == 0 {
		return 0
	}
	v := (*w)[0]
	*w = (*w)[1:]
	return v
}

func sampler(t testing.TB, s Source, sigma uint64) *Gaussian {
	t.Helper()
	g, err := NewGaussian(s, sigma)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// cumulative returns P[X ≤ k] for the discrete Gaussian.
func cumulative(sigma float64, k int) float64 {
	var below, all float64
	reach := int(12*sigma) + 2
	for i := -reach; i <= reach; i++ {
		p := math.Exp(-float64(i) * float64(i) / (2 * sigma * sigma))
		all += p
		if i <= k {
			below += p
		}
	}
	return below / all
}

// The distribution at small parameters, value by value: the χ² statistic of all values that are expected often enough.
func TestEveryValueComesAsOftenAsItShould(t *testing.T) {
	for _, sigma := range []uint64{1, 2, 3, 7, 20} {
		for name, source := range map[string]Source{"system": Secure(), "seeded": rng.New(3, t.Name())} {
			g := sampler(t, source, sigma)
			const draws = 200_000
			count := map[int]int{}
			for range draws {
				count[int(g.Next())]++
			}
			s := float64(sigma)
			var chi, freedom float64
			for k := -int(5 * s); k <= int(5*s); k++ {
				want := draws * (cumulative(s, k) - cumulative(s, k-1))
				if want < 10 {
					continue
				}
				d := float64(count[k]) - want
				chi += d * d / want
				freedom++
			}
			if z := (chi - freedom) / math.Sqrt(2*freedom); z > 10 {
				t.Errorf("sigma %d, %s: χ² is %.1f for %g values", sigma, name, chi, freedom)
			}
		}
	}
}

// moments, Kolmogorov-Smirnov and tail counts at a parameter as fine as in use, where the distribution is the
// continuous one but for parts in 2^30.
func checkNormal(t testing.TB, draw func() int64, sigma float64, draws int) {
	t.Helper()
	n := float64(draws)
	var sum, squares, cubes, fourths, lag, previous float64
	bounds := []float64{-5, -4, -3, -2, -1, -0.1, 0, 0.1, 1, 2, 3, 4, 5}
	below := make([]float64, len(bounds))
	const bins = 4096 // of the distribution function
	counts := make([]float64, bins+1)
	for range draws {
		x := float64(draw()) / sigma
		sum += x
		squares += x * x
		cubes += x * x * x
		fourths += x * x * x * x
		lag += x * previous
		previous = x
		for i, b := range bounds {
			if x < b {
				below[i]++
			}
		}
		counts[int(bins*0.5*math.Erfc(-x/math.Sqrt2))]++
	}
	const z = 5.5 // standard errors
	for _, m := range []struct {
		name              string
		got, want, spread float64
	}{
		{"mean", sum / n, 0, 1},
		{"variance", squares / n, 1, math.Sqrt2},
		{"third moment", cubes / n, 0, math.Sqrt(15)},
		{"fourth moment", fourths / n, 3, math.Sqrt(96)},
		{"correlation of neighbours", lag / n, 0, 1},
	} {
		if math.Abs(m.got-m.want) > z*m.spread/math.Sqrt(n) {
			t.Errorf("%s is %.6g, want %g ± %.2g", m.name, m.got, m.want, m.spread/math.Sqrt(n))
		}
	}
	for i, b := range bounds {
		p := 0.5 * math.Erfc(-b/math.Sqrt2)
		if got := below[i] / n; math.Abs(got-p) > z*math.Sqrt(p*(1-p)/n)+5/n { // rare events come in whole numbers
			t.Errorf("fraction below %g is %.8f, want %.8f", b, got, p)
		}
	}
	var total, ks float64
	for i, c := range counts[:bins] {
		total += c
		ks = math.Max(ks, math.Abs(total/n-float64(i+1)/bins))
	}
	if ks*math.Sqrt(n) > 2.6 { // with probability 2·e^(−2·2.6²) = 3e-6
		t.Errorf("Kolmogorov-Smirnov distance is %.3g, %.3g/√n", ks, ks*math.Sqrt(n))
	}
}

func TestFineNoiseIsNormal(t *testing.T) {
	for _, sigma := range []uint64{1 << 12, 1<<30 + 12345, maxSigma} {
		checkNormal(t, sampler(t, Secure(), sigma).Next, float64(sigma), 300_000)
	}
}

// The test itself can fail: noise that is 1 % too small, of too little tail, or of a ziggurat cut at 4σ does.
func TestChecksNotice(t *testing.T) {
	g := sampler(t, Secure(), 1<<20)
	for name, spoil := range map[string]func() int64{
		"too small": func() int64 { return g.Next() * 99 / 100 }, // fifteen standard errors of the variance
		"cut off": func() int64 {
			for {
				if x := g.Next(); x < 3<<20 && x > -3<<20 {
					return x
				}
			}
		},
		"moved": func() int64 { return g.Next() + 1<<14 },
	} {
		probe := &counting{TB: t}
		checkNormal(probe, spoil, 1<<20, 1_200_000)
		if probe.failures == 0 {
			t.Errorf("noise that is %s passes", name)
		}
	}
}

type counting struct {
	testing.TB
	failures int
}

func (c *counting) Errorf(string, ...any) { c.failures++ }

// Comparisons that 64 bits do not settle continue with the digits that follow, as exact fractions.
func TestTiesAreDecidedExactly(t *testing.T) {
	// 1/3 = 0.0101…b: its first 64 bits are 0x5555…, what is left is 1/3 again.
	third := uint64(math.MaxUint64 / 3)
	for _, c := range []struct {
		next []uint64
		want bool
	}{{[]uint64{third - 1}, true}, {[]uint64{third + 1}, false}, {[]uint64{third, third - 1},
		true}, {[]uint64{third, third, third + 1}, false}} {
		w := words(c.next)
		g := &Gaussian{coins: coins{&w}}
		if got := g.tie(0, 1, 3, 1); got != c.want {
			t.Errorf("after %x: %v, want %v", c.next, got, c.want)
		}
	}
	g := &Gaussian{coins: coins{&words{0}}}
	if g.tie(0, 0, 7, 3) {
		t.Error("nothing left is no probability")
	}
	// A whole comparison that ties: a/b = 1/3 and k = 2, so 1/6 = 0x2AAA… and a rest of 2/3.
	w := words{0, third / 2, math.MaxUint64, math.MaxUint64}
	g = &Gaussian{coins: coins{&w}}
	g.decays(1, 3)
	if len(w) > 1 {
		t.Errorf("the tie took no further word: %d left", len(w))
	}
	// The probabilities add up: the exact value of (q + r/b)/k for some numbers, by counting with a coarse source.
	r := rng.New(5, t.Name())
	const draws = 40_000
	hits := 0
	g = &Gaussian{coins: coins{r}}
	for range draws {
		if g.tie(2, 5, 7, 4) {
			hits++
		}
	}
	want, _ := big.NewRat(2*7+5, 7*4).Float64()
	if p := float64(hits) / draws; math.Abs(p-want) > 6*math.Sqrt(want*(1-want)/draws) {
		t.Errorf("fraction %g, want %g", p, want)
	}
}

func TestBelowAndChance(t *testing.T) {
	r := rng.New(2, t.Name())
	const draws = 60_000
	counts := make([]int, 6)
	for range draws {
		counts[Below(r, 6)]++
	}
	for i, c := range counts {
		if math.Abs(float64(c)-draws/6) > 6*math.Sqrt(draws*5.0/36) {
			t.Errorf("%d came %d times of %d", i, c, draws)
		}
	}
	if v := Below(&words{0, math.MaxUint64}, 3); v != 2 { // 0 would favour the first number and is passed over
		t.Errorf("Below gives %d", v)
	}
	hits := 0
	for range draws {
		if Chance(r, 0.014) {
			hits++
		}
	}
	if math.Abs(float64(hits)-draws*0.014) > 6*math.Sqrt(draws*0.014) {
		t.Errorf("%d of %d with probability 0.014", hits, draws)
	}
	for p, want := range map[float64]bool{0: false, 1: true, 2: true, -1: false, math.NaN(): false} {
		if got := Chance(r, p); got != want {
			t.Errorf("probability %g: %v", p, got)
		}
	}
	if Chance(&words{1 << 63}, 0.5) || !Chance(&words{1<<63 - 1}, 0.5) {
		t.Error("a probability of a half is not half of the words")
	}
}

func TestSourcesDiffer(t *testing.T) {
	a, b := Secure(), Secure()
	var x, y []uint64
	for range 1000 {
		x, y = append(x, a.Uint64()), append(y, b.Uint64())
	}
	slices.Sort(x)
	if slices.Equal(x, y) || len(slices.Compact(x)) != 1000 {
		t.Error("the system's words repeat")
	}
}

func TestParameters(t *testing.T) {
	for _, sigma := range []uint64{0, maxSigma + 1} {
		if _, err := NewGaussian(Secure(), sigma); err == nil {
			t.Errorf("parameter %d is taken", sigma)
		}
	}
	for _, c := range []struct {
		sigma, bound float64
		n, clients   int
	}{{-1, 1, 1, 1}, {1, 0, 1, 1}, {math.NaN(), 1, 1, 1}, {1, 1, 0, 1}, {math.Inf(1), 1, 1, 1}, {1e-12, 1, 10,
		1 << 30}, {1, 1e-101, 1, 1}} {
		if g, err := NewGrid(c.sigma, c.bound, c.n, c.clients); err == nil {
			t.Errorf("%+v gives %+v", c, g)
		}
	}
	if g, err := NewGrid(0, 2, 10, 5); err != nil || g.Step > 1e-13 || g.Units != 0 || g.Sensitivity != 2 {
		t.Errorf("no noise: %+v, %v", g, err)
	}
}

// The grid keeps its promises: neighbours' rounded sums are within the stated sensitivity, the noise is no smaller than
// asked, and what that costs is small.
func TestGrid(t *testing.T) {
	r := rng.New(4, t.Name())
	for range 200 {
		sigma, bound := math.Exp(2*r.NormFloat64()), math.Exp(3*r.NormFloat64())
		n, people := 1+r.IntN(300), 1+r.IntN(200_000)
		g, err := NewGrid(sigma, bound, n, people)
		if err != nil {
			t.Fatal(err)
		}
		if f, _ := math.Frexp(g.Step); f != 0.5 {
			t.Errorf("step %g is no power of two", g.Step)
		}
		if noise := float64(g.Units) * g.Step; noise < sigma*g.Sensitivity || noise > sigma*bound*(1+1e-4) ||
			g.Sensitivity < bound {
			t.Errorf("sigma %g of %g: noise %g, sensitivity %g", sigma, bound, noise, g.Sensitivity)
		}
		// A sum and its neighbour, which a vector of norm bound was added to.
		var norm, moved float64
		v := make([]float64, n)
		for i := range v {
			v[i] = r.NormFloat64()
			norm += v[i] * v[i]
		}
		for _, x := range v {
			x *= bound / math.Sqrt(norm)
			sum := float64(people) * bound * (2*r.Float64() - 1)
			d := g.Value(g.Round(sum+x) - g.Round(sum))
			moved += d * d
			if k := g.Round(sum); g.Round(g.Value(k)) != k {
				t.Errorf("%d steps do not survive", k)
			}
		}
		if math.Sqrt(moved) > g.Sensitivity {
			t.Errorf("the rounded sum moves by %g, more than %g", math.Sqrt(moved), g.Sensitivity)
		}
	}
}

// A vector at the bound whose values are all rounded away from zero is within the stated sensitivity, with the most
// values that are announced too.
func TestRoundingUp(t *testing.T) {
	longest := 0.0
	for _, n := range []int{1, 2, 1408, 1 << 22} {
		for _, sigma := range []float64{0.3, 2, 300} {
			for _, bound := range []float64{leastBound, 1, 1.7, 1e100} {
				g, err := NewGrid(sigma, bound, n, 1000)
				if err != nil {
					t.Fatal(err)
				}
				k := math.Floor(bound/math.Sqrt(float64(n))/g.Step - 0.5)
				k -= 1 - math.Abs(math.Mod(k, 2)) // odd, so that half a step more is rounded up
				steps, err := g.RoundBounded(slices.Repeat([]float64{(k + 0.5) * g.Step}, n), bound)
				if err != nil {
					t.Fatal(err)
				}
				norm := math.Sqrt(float64(n)) * g.Value(steps[0])
				if longest = max(longest, norm/bound); norm > g.Sensitivity {
					t.Errorf("%d values, noise %g of %g: norm %g, charged are %g", n, sigma, bound, norm, g.Sensitivity)
				}
			}
		}
	}
	if longest <= 1 {
		t.Error("no vector became longer")
	}
}

// 18 000 values, a round of the paper: milliseconds.
func BenchmarkRound(b *testing.B) {
	g := sampler(b, Secure(), 1<<30+12345)
	for b.Loop() {
		for range 18_000 {
			g.Next()
		}
	}
}

// BenchmarkHundredMillion draws 10⁸ numbers and tests moments, the distribution function and tails of them.
func BenchmarkHundredMillion(b *testing.B) {
	g := sampler(b, Secure(), 1<<30+12345)
	for b.Loop() {
		checkNormal(b, g.Next, 1<<30+12345, 100_000_000)
	}
}
