package target

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"popri/configs"
	"popri/fedsim/release"
	"popri/internal/rng"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/model/embedding"
	"popri/model/embedding/words"
	"popri/scoring/query"
)

const dim = 5

// noEncoder identifies an encoder whose vectors the tests make up.
type noEncoder struct{ embedding.Encoder }

func (noEncoder) Name() string { return "made up" }
func (noEncoder) Dim() int     { return dim }

// TestWords: the question that is asked is the one that is announced, and its answer is read as the clients' mean, which points to
// where it is, and as their frequencies of words.
func TestWords(t *testing.T) {
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
	public := texts(600, 0)
	frequencies := []float64{0.6, 0.3, 0.1}
	const clients = 400
	private := texts(clients, 0.4)
	means := query.Means{Clients: clients, Dim: dim + len(frequencies)}
	for i := range clients {
		for _, x := range private.Row(i) {
			means.Data = append(means.Data, float64(x))
		}
		for _, f := range frequencies {
			means.Data = append(means.Data, f*float64(1+i)) // of any length
		}
	}
	for _, asked := range []int{0, len(frequencies)} {
		p, err := NewPool(nil, public)
		if err != nil {
			t.Fatal(err)
		}
		e := method.Env{Config: configs.Default(), Encoder: noEncoder{}}
		e.Config.Scoring.Words, e.Config.Scoring.Dim = asked, dim
		held := query.Clients{Means: means}
		if p.words = asked; asked > 0 {
			e.Words = &words.Encoder{Encoder: noEncoder{}}
		} else {
			held.Means = query.Means{Clients: clients, Dim: dim, Data: make([]float64, clients*dim)}
			for i := range clients {
				copy(held.Row(i), means.Row(i))
			}
		}
		q, err := p.Query(e)
		if err != nil {
			t.Fatal(err)
		}
		name, bound := Query(e.Config)
		if sent := Traffic(e.Config).Sent; q.Name() != name || q.Bound() != bound || q.Len() != sent {
			t.Errorf("asked is %s, bound %g, %d values, announced %s, %g, %d", q.Name(), q.Bound(), q.Len(), name, bound, sent)
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
		if cosine := target.Mean[0] / target.norm(); cosine < 0.9 {
			t.Errorf("%d words: the estimate has a cosine of %.3f with the clients' direction", asked, cosine)
		}
		if asked == 0 {
			continue
		}
		e.Dir = t.TempDir()
		e.Words.Tokens = make([]int32, asked)
		if err := os.MkdirAll(rundir.Round(e.Dir, 1), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(rundir.Round(e.Dir, 1), release.File), answer.Encode(), 0o644); err != nil {
			t.Fatal(err)
		}
		read, noise, err := Words(e)
		if err != nil || len(read) != asked {
			t.Fatalf("%d words are read, want %d (%v)", len(read), asked, err)
		}
		for j, got := range read {
			want := frequencies[j] / math.Sqrt(0.36+0.09+0.01)
			if math.Abs(got-want) > 5*noise || noise > 0.01 {
				t.Errorf("word %d has %.4f ± %.4f, want %.4f", j, got, noise, want)
			}
		}
		e.Words.Tokens = e.Words.Tokens[1:]
		if _, _, err := Words(e); err == nil {
			t.Error("a release of another number of words is read")
		}
	}
}

func (t *Target) norm() float64 {
	square := 0.0
	for _, v := range t.Mean {
		square += v * v
	}
	return math.Sqrt(square)
}
