package target

import (
	"math"
	"math/rand/v2"
	"testing"

	"popri/configs"
	"popri/fedsim/release"
	"popri/internal/rng"
	"popri/methods/method"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

const dim = 5

// noEncoder identifies an encoder whose vectors the tests make up.
type noEncoder struct{ embedding.Encoder }

func (noEncoder) Name() string { return "made up" }
func (noEncoder) Dim() int     { return dim }

// TestRead: the question that is asked is the one that is announced, and its answer is read as the clients' mean, which
// points to where it is.
func TestRead(t *testing.T) {
	random := rng.New(1, t.Name())
	texts := func(n int, shift float32) embedding.Matrix {
		m := embedding.NewMatrix(n, dim)
		for i := range m.Data {
			m.Data[i] = float32(0.3 * random.NormFloat64())
		}
		for i := range n {
			m.Row(i)[0] += shift
		}
		return m
	}
	const clients = 400
	means := query.Means{Clients: clients, Dim: dim}
	for _, x := range texts(clients, 0.4).Data {
		means.Data = append(means.Data, float64(x))
	}
	p, err := newPool(nil, texts(600, 0))
	if err != nil {
		t.Fatal(err)
	}
	e := method.Env{Config: configs.Default(), Encoder: noEncoder{}}
	e.Config.Scoring.Dim = dim
	q, err := p.Query(e)
	if err != nil {
		t.Fatal(err)
	}
	name, bound := Query(e.Config)
	if sent := Traffic(e.Config).Sent; q.Name() != name || q.Bound() != bound || q.Len() != sent {
		t.Errorf("asked is %s, bound %g, %d values, announced %s, %g, %d", q.Name(), q.Bound(), q.Len(), name, bound,
			sent)
	}
	read := p.Read(noised(t, q, means, random))
	if read.Mean[0]/read.norm() < 0.9 || read.Form.Measures != nil {
		t.Errorf("the estimate has a cosine of %.3f with the clients' direction, form %v", read.Mean[0]/read.norm(),
			read.Form)
	}
}

// TestLengthOfMean: the estimate is as far from the public texts as the clients are, whether these have little in
// common or much. Clients are means of four texts, as scoring.ClientTexts takes them to be.
func TestLengthOfMean(t *testing.T) {
	for _, shift := range []float64{0.05, 0.2, 0.6} {
		random := rng.New(1, t.Name())
		const clients, wide = 3000, 40
		public := embedding.NewMatrix(4*clients, wide)
		for i := range public.Data {
			public.Data[i] = float32(0.1 * random.NormFloat64())
		}
		p, err := newPool(nil, public)
		if err != nil {
			t.Fatal(err)
		}
		q, err := scoring.NewMean(wide, scoring.MeanOptions{Centre: p.Centre, Full: true, Bound: 1, Checks: Checks},
			"k")
		if err != nil {
			t.Fatal(err)
		}
		means := query.Means{Clients: clients, Dim: wide}
		for range clients {
			for j := range wide {
				x := 0.05 * random.NormFloat64()
				if j == 0 {
					x += shift
				}
				means.Data = append(means.Data, x)
			}
		}
		if got := p.Read(noised(t, q, means, random)).norm(); math.Abs(got/shift-1) > 0.1 {
			t.Errorf("clients at a distance of %g are estimated at %.3f", shift, got)
		}
	}
}

// noised answers a question with the noise of one release.
func noised(t *testing.T, q query.Query, means query.Means, random *rand.Rand) *release.Release {
	t.Helper()
	sum, err := q.Sum(query.Clients{Means: means})
	if err != nil {
		t.Fatal(err)
	}
	answer := &release.Release{Sum: sum, Clients: means.Clients, Bound: q.Bound(), Sigma: 0.5, Sensitivity: q.Bound(),
		Query: q.Name()}
	for j := range sum {
		sum[j] += answer.NoiseStd() * random.NormFloat64()
	}
	return answer
}

func (t *Target) norm() float64 {
	square := 0.0
	for _, v := range t.Mean {
		square += v * v
	}
	return math.Sqrt(square)
}
