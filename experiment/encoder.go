package experiment

import (
	"context"
	"errors"

	"popri/assembly"
	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/embedding"
	"popri/fedsim"
	"popri/internal/rng"
	"popri/metrics"
	"popri/query"
	"popri/scoring"
)

// EncoderQuality says how good an encoder is on the embedded default, whose private half is no secret.
type EncoderQuality struct {
	Encoder string `json:"encoder"`
	// AUC of separating validation and test clients' texts from Ω by their cosine with the train clients
	AUC   float64       `json:"auc"`
	Pairs []PairQuality `json:"pairs"`
}

// PairQuality is the share of prompts whose result is the same with noise of multiplier Sigma as without noise, as
// released and after the projection.
type PairQuality struct {
	Sigma  float64    `json:"noise_multiplier"`
	Pair   [2]float64 `json:"same_pair"`   // released, projected
	Chosen [2]float64 `json:"same_chosen"` // released, projected
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

// JudgeEncoder measures the configuration's encoder. Public texts stand in for samples, K·J of them, in five draws; the
// noise is seeded.
func JudgeEncoder(c configs.Config, sigmas []float64) (*EncoderQuality, error) {
	if c.Data.Private != "godoc" || c.Data.Public != "godoc" {
		return nil, mistake("an encoder is judged without noise, so on the embedded default only (data.private is "+
			"%s)", c.Data.Private)
	}
	data, encoder, err := dataAndEncoder(c)
	if err != nil {
		return nil, err
	}
	defer assembly.FreeEncoder(encoder)
	embedded, err := fedsim.Embed(context.Background(), data.Private.Split(clients.Train), encoder, false)
	if err != nil {
		return nil, err
	}
	means := embedded.Means
	public, err := encoder.Encode(datasets.Strings(data.Public.Prompts))
	if err != nil {
		return nil, err
	}
	held, err := encoder.Encode(append(clients.Texts(data.Private.Split(clients.Validation)),
		clients.Texts(data.Private.Split(clients.Test))...))
	if err != nil {
		return nil, err
	}
	q := &EncoderQuality{Encoder: encoder.Name(), AUC: metrics.AUC(likeness(held, means), likeness(public, means))}
	n, j := c.Generate.Prompts*c.Generate.Samples, c.Generate.Samples
	if n > public.Rows {
		return nil, errors.New("experiment: more samples than public texts to stand in for them")
	}
	const draws = 5
	for _, sigma := range sigmas {
		p := PairQuality{Sigma: sigma}
		for draw := range draws {
			random := rng.New(c.Seed, "encoder", string(rune('a'+draw)))
			samples := embedding.NewMatrix(n, public.Dim)
			for i, from := range random.Perm(public.Rows)[:n] {
				copy(samples.Row(i), public.Row(from))
			}
			s, err := scoring.Prepare(samples, scoring.Options{Normalize: scoring.Normalize(c.Scoring.Normalize),
				Clip: c.Scoring.ClipNorm})
			if err != nil {
				return nil, err
			}
			truth, err := s.Sum(means)
			if err != nil {
				return nil, err
			}
			noised := make([]float64, n)
			for i := range noised {
				noised[i] = truth[i] + sigma*c.Scoring.ClipNorm*random.NormFloat64()
			}
			projected, err := s.Project(noised)
			if err != nil {
				return nil, err
			}
			want, err := scoring.Rank[string](truth, nil, j, c.DPO.RejectedRank, scoring.SkipDuplicates)
			if err != nil {
				return nil, err
			}
			for way, scores := range [][]float64{noised, projected} {
				got, err := scoring.Rank[string](scores, nil, j, c.DPO.RejectedRank, scoring.SkipDuplicates)
				if err != nil {
					return nil, err
				}
				for i := range want.Pairs {
					share := 1 / float64(draws*len(want.Pairs))
					if got.Pairs[i].Chosen == want.Pairs[i].Chosen {
						p.Chosen[way] += share
						if got.Pairs[i].Rejected == want.Pairs[i].Rejected {
							p.Pair[way] += share
						}
					}
				}
			}
		}
		q.Pairs = append(q.Pairs, p)
	}
	return q, nil
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
