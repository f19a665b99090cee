package target

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/eval/metrics"
	"popri/fedsim/release"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring/query"
)

const dim = 5

// noEncoder identifies an encoder whose vectors the tests make up.
type noEncoder struct{ embedding.Encoder }

func (noEncoder) Name() string { return "made up" }
func (noEncoder) Dim() int     { return dim }

// twoLobes are texts at ±1 along a direction, or at 0: the means of both kinds are alike, the distributions are not.
func twoLobes(random *rand.Rand, n int, lobes func(i int) bool) embedding.Matrix {
	m := embedding.NewMatrix(n, dim)
	for i := range n {
		row := m.Row(i)
		for j := range row {
			row[j] = float32(0.3 * random.NormFloat64())
		}
		if lobes(i) {
			row[0] += float32(1 - 2*random.IntN(2))
		}
	}
	return m
}

func asking(kind string) configs.Config {
	c := configs.Default()
	c.Scoring.Features, c.Scoring.FeatureCount = kind, 15
	return c
}

// TestFeaturesTellWhatTheMeanDoesNot: clients write texts of two lobes, public texts are of both kinds. The mean embedding
// tells them no better than chance, and every kind of features does.
func TestFeaturesTellWhatTheMeanDoesNot(t *testing.T) {
	random := rng.New(1, t.Name())
	public := twoLobes(random, 600, func(i int) bool { return i%2 == 0 })
	const clients, each = 400, 4
	private := twoLobes(random, clients*each, func(int) bool { return true })
	offsets := make([]int, clients+1)
	for i := range offsets {
		offsets[i] = each * i
	}
	means, err := query.MeanEmbeddings(private, offsets)
	if err != nil {
		t.Fatal(err)
	}
	held := query.Clients{Means: means, Texts: private, Offsets: offsets}
	for _, kind := range configs.Choices("scoring.features") {
		if kind == configs.Words { // are of texts, not of embeddings
			continue
		}
		c := asking(kind)
		p, err := NewPool(make([]datasets.Text, public.Rows), public, c)
		if err != nil {
			t.Fatal(err)
		}
		q, err := p.Query(c, noEncoder{})
		if err != nil {
			t.Fatal(err)
		}
		name, bound := Query(c)
		if q.Name() != name || q.Bound() != bound || q.NeedsTexts() != HasFeatures(c) {
			t.Errorf("%s: asked is %s, bound %g, announced %s, %g", kind, q.Name(), q.Bound(), name, bound)
		}
		c.Scoring.Dim = dim
		if sent := Traffic(c).Sent; q.Len() != sent {
			t.Errorf("%s: %d values, announced %d", kind, q.Len(), sent)
		}
		sum, err := q.Sum(held)
		if err != nil {
			t.Fatal(err)
		}
		answer := &release.Release{Sum: sum, Clients: clients, Bound: bound, Sigma: 0.5, Sensitivity: bound, Query: name}
		for j := range sum {
			sum[j] += answer.NoiseStd() * random.NormFloat64()
		}
		target := p.Read(answer)
		scores := target.Scores(p.Points)
		var parts [2][]float64
		for i, s := range scores {
			parts[i%2] = append(parts[i%2], s)
		}
		auc := metrics.AUC(parts[0], parts[1])
		if kind == "mean" && auc > 0.6 || kind != "mean" && auc < 0.8 {
			t.Errorf("%s: the AUC is %.3f", kind, auc)
		}
		if kind != "mean" { // weights are matched in the same space
			s, err := target.Choose(configs.PublicSelection{Texts: 600, Weights: "matched", Rows: 1000}, 1)
			lobes := int64(0)
			for _, x := range s.Chosen {
				if x.Index%2 == 0 {
					lobes += x.Copies
				}
			}
			if err != nil || lobes < 600 {
				t.Errorf("%s: %d of 1000 rows are like the clients' (%v)", kind, lobes, err)
			}
		}
		// The estimate points to the true mean. Its length is as public groups say, which are no clients.
		truth := mean(p.PointsOf(private))
		var product, a, b float64
		for j := range truth {
			x, y := truth[j]-p.Centre[j], target.Mean[j]
			product, a, b = product+x*y, a+x*x, b+y*y
		}
		if kind != "mean" && (product/math.Sqrt(a*b) < 0.97 || b < a/5 || b > 2*a) {
			t.Errorf("%s: the estimate has a cosine of %.3f with the mean and %.3f of its length", kind,
				product/math.Sqrt(a*b), math.Sqrt(b/a))
		}
	}
}

// TestFeatureShare: groups of public texts have the configured share of their squared distance from the centre in the
// features, and the noise is the same in all values, larger than without features.
func TestFeatureShare(t *testing.T) {
	public := twoLobes(rng.New(2, t.Name()), 400, func(i int) bool { return i%3 == 0 })
	plain, err := NewPool(nil, public, asking("mean"))
	if err != nil {
		t.Fatal(err)
	}
	answer := &release.Release{Clients: 10, Bound: 2, Sigma: 1, Sensitivity: 2, Sum: make([]float64, 100)}
	noise := plain.Read(answer).Noise
	for _, kind := range []string{"fourier", "histogram", "moments"} {
		p, err := NewPool(nil, public, asking(kind))
		if err != nil {
			t.Fatal(err)
		}
		features := embedding.NewMatrix(public.Rows, p.Points.Dim-dim)
		for i := range public.Rows {
			copy(features.Row(i), p.Points.Row(i)[dim:])
		}
		g, err := gain(features, p.Centre[dim:], 4)
		if err != nil {
			t.Fatal(err)
		}
		first, second := configs.FeatureShare*g*g, (1-configs.FeatureShare)*p.gain*p.gain // lengths are about 1/gain
		if math.Abs(first/second-1) > 1e-4 {
			t.Errorf("%s: the features have %g of the squared length", kind, p.gain*p.gain/(g*g+p.gain*p.gain))
		}
		if got := p.Read(answer).Noise; math.Abs(got-noise/math.Sqrt(1-configs.FeatureShare)) > 1e-12 {
			t.Errorf("%s: noise of %g, want %g", kind, got, noise/math.Sqrt(1-configs.FeatureShare))
		}
	}
}

// TestTooManyFeatures: features that the public texts cannot give are the user's mistake.
func TestTooManyFeatures(t *testing.T) {
	public := twoLobes(rng.New(3, t.Name()), 40, func(int) bool { return true })
	for kind, most := range map[string]int{"histogram": 40, "moments": 20} {
		c := asking(kind)
		c.Scoring.FeatureCount = most
		if _, err := NewPool(nil, public, c); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		c.Scoring.FeatureCount = most + 1
		_, err := NewPool(nil, public, c)
		if !fault.IsUser(err) || !strings.Contains(err.Error(), "scoring.feature_count is "+map[string]string{"histogram": "41",
			"moments": "21"}[kind]) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestKeysTellFeatures: questions with other features have other keys.
func TestKeysTellFeatures(t *testing.T) {
	public := twoLobes(rng.New(4, t.Name()), 100, func(int) bool { return true })
	keys := map[string]string{}
	for _, kind := range configs.Choices("scoring.features") {
		for _, seed := range []uint64{1, 2} {
			c := asking(kind)
			c.Seed = seed
			p, err := NewPool(nil, public, c)
			if err != nil {
				t.Fatal(err)
			}
			q, err := p.Query(c, noEncoder{})
			if err != nil {
				t.Fatal(err)
			}
			keys[q.Key()] = kind
		}
	}
	// Neither the mean nor the moments depend on the seed.
	if len(keys) != 6 {
		t.Errorf("%d different keys: %v", len(keys), keys)
	}
}
