package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/eval/metrics"
	"popri/fedsim"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/run/assembly"
	"popri/scoring"
	"popri/scoring/query"
)

// Encoder says how good an encoder is on the embedded default, whose private half is no secret.
type Encoder struct {
	Encoder string `json:"encoder"`
	// AUC of separating validation and test clients' texts from Ω by their cosine with the train clients
	AUC   float64        `json:"auc"`
	Pairs []PairRecovery `json:"pairs"`
}

// PairRecovery says what noise of multiplier Sigma leaves of the pairs, as fractions of prompts: as released, and after
// the projection.
type PairRecovery struct {
	Sigma   float64    `json:"noise_multiplier"`
	Pair    [2]float64 `json:"same_pair"`   // released, projected
	Chosen  [2]float64 `json:"same_chosen"` // released, projected
	Ordered [2]float64 `json:"true_order"`  // released, projected: the chosen sample has the higher true score
}

// BenchmarkEncoder says how well the default's encoder separates clients' texts from public ones, and for which
// fraction of the prompts noised scores give the pair of the scores without noise, as released and projected.
// POPRI_ENCODER is another encoder. It reads the texts of the embedded default, which are no secret, without noise.
func BenchmarkEncoder(b *testing.B) {
	c := configs.Default()
	c.Scoring.Encoder = cmp.Or(os.Getenv("POPRI_ENCODER"), c.Scoring.Encoder)
	for b.Loop() {
		q, err := measureEncoder(c, []float64{1.047, 5.518})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(q.AUC, "AUC")
		for _, p := range q.Pairs {
			for way, name := range []string{"released", "projected"} {
				b.ReportMetric(p.Pair[way], fmt.Sprintf("pair-%s-σ%g", name, p.Sigma))
				b.ReportMetric(p.Chosen[way], fmt.Sprintf("chosen-%s-σ%g", name, p.Sigma))
			}
		}
	}
}

// measureEncoder measures the configuration's encoder. Public texts stand in for samples, K·J of them, in five draws;
// the noise is seeded.
func measureEncoder(c configs.Config, sigmas []float64) (*Encoder, error) {
	data, encoder, err := dataAndEncoder(c)
	if err != nil {
		return nil, err
	}
	defer assembly.FreeEncoder(encoder)
	embedded, err := fedsim.Embed(context.Background(), data.Private.Split(clients.Train), encoder, false, nil)
	if err != nil {
		return nil, err
	}
	public, err := encoder.Encode(datasets.Strings(data.Public.Prompts))
	if err != nil {
		return nil, err
	}
	held, err := encoder.Encode(append(clients.Texts(data.Private.Split(clients.Validation)),
		clients.Texts(data.Private.Split(clients.Test))...))
	if err != nil {
		return nil, err
	}
	q := &Encoder{Encoder: encoder.Name(),
		AUC: metrics.AUC(likeness(held, embedded.Means), likeness(public, embedded.Means))}
	n := c.Generate.Prompts * c.Generate.Samples
	if n > public.Rows {
		return nil, errors.New("quality: more samples than public texts to stand in for them")
	}
	const draws = 5
	for _, sigma := range sigmas {
		p := PairRecovery{Sigma: sigma}
		for draw := range draws {
			random := rng.New(c.Seed, "encoder", string(rune('a'+draw)))
			samples := embedding.NewMatrix(n, public.Dim)
			for i, from := range random.Perm(public.Rows)[:n] {
				copy(samples.Row(i), public.Row(from))
			}
			if err := p.add(c, samples, embedded.Means, random, 1.0/draws); err != nil {
				return nil, err
			}
		}
		q.Pairs = append(q.Pairs, p)
	}
	return q, nil
}

// add asks once about samples and adds what was recovered, by weight.
func (p *PairRecovery) add(c configs.Config, samples embedding.Matrix, means query.Means, random *rand.Rand,
	weight float64) error {
	bound := c.Scoring.ClipNorm
	s, err := scoring.Prepare(samples, scoring.Options{Normalize: scoring.Normalize(c.Scoring.Normalize), Clip: bound})
	if err != nil {
		return err
	}
	truth, err := s.Sum(means)
	if err != nil {
		return err
	}
	noised := make([]float64, len(truth))
	for i := range noised {
		noised[i] = truth[i] + p.Sigma*bound*random.NormFloat64()
	}
	same := func(scores []float64) ([]float64, error) { return scores, nil }
	for way, denoise := range []func([]float64) ([]float64, error){same, s.Project} {
		got, err := scoring.Recovered(truth, noised, denoise, c.Generate.Samples, c.DPO.RejectedRank)
		if err != nil {
			return err
		}
		p.Pair[way] += weight * got["pairs"]
		p.Chosen[way] += weight * got["chosen"]
		p.Ordered[way] += weight * got["ordered"]
	}
	return nil
}

// likeness is each text's cosine with the mean of the clients' means.
func likeness(texts embedding.Matrix, means query.Means) []float64 {
	centre := make([]float64, means.Dim)
	for i := range means.Clients {
		for d, v := range means.Row(i) {
			centre[d] += v
		}
	}
	out := make([]float64, texts.Rows)
	for i := range out {
		for d, v := range texts.Row(i) {
			out[i] += float64(v) * centre[d]
		}
	}
	return out
}

// dataAndEncoder reads the configuration's data and opens or fits its encoder, which the caller frees.
func dataAndEncoder(c configs.Config) (*assembly.Corpus, embedding.Encoder, error) {
	data, err := assembly.LoadData(c)
	if err != nil {
		return nil, nil, err
	}
	encoder, err := assembly.NewEncoder(c, data.Public)
	return data, encoder, err
}
