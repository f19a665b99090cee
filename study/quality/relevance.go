package quality

import (
	"context"
	"strconv"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/eval/metrics"
	"popri/fedsim"
	"popri/fedsim/release"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/methods/method"
	"popri/methods/target"
	"popri/run/assembly"
	"popri/scoring"
)

// Relevance says how well one release tells public texts of the clients' domain from the others, on the embedded
// default, which has the domain of each public text.
type Relevance struct {
	Encoder  string         `json:"encoder"`
	Query    string         `json:"query"`
	InDomain int            `json:"in_domain"` // public texts of the clients' own folders
	Public   int            `json:"public"`    // all public texts
	AUC      []RelevanceAUC `json:"auc"`
}

// RelevanceAUC is the area under the ROC curve with one noise multiplier, the mean of three draws of the noise.
type RelevanceAUC struct {
	Sigma float64 `json:"noise_multiplier"`
	// Text is that of a text's score alone, Documents that of its relevance with its document and folder.
	Text      float64 `json:"text"`
	Documents float64 `json:"documents"`
}

// MeasureRelevance measures what the release that the configuration asks for tells. The noise is seeded.
func MeasureRelevance(c configs.Config, sigmas []float64) (*Relevance, error) {
	if c.Data.Private != "godoc" || c.Data.Public != "godoc" {
		return nil, fault.Userf("relevance is judged on the embedded default only, which has the domain of its public texts "+
			"(data.private is %s, data.public %s)", c.Data.Private, c.Data.Public)
	}
	data, encoder, err := dataAndEncoder(c)
	if err != nil {
		return nil, err
	}
	defer assembly.FreeEncoder(encoder)
	held, err := fedsim.Embed(context.Background(), data.Private.Split(clients.Train), encoder, false, nil)
	if err != nil {
		return nil, err
	}
	texts := data.Public.Generator
	vectors, err := encoder.Encode(datasets.Strings(texts))
	if err != nil {
		return nil, err
	}
	pool, err := target.NewPool(texts, vectors)
	if err != nil {
		return nil, err
	}
	asked, err := pool.Query(method.Env{Config: c, Encoder: encoder})
	if err != nil {
		return nil, err
	}
	truth, err := asked.Sum(held)
	if err != nil {
		return nil, err
	}
	domain := map[string]bool{}
	for _, t := range data.Public.InDomain {
		domain[t.Text] = true
	}
	q := &Relevance{Encoder: encoder.Name(), Query: asked.Name(), Public: len(texts)}
	for _, t := range texts {
		if domain[t.Text] {
			q.InDomain++
		}
	}
	levels := target.Levels(texts)
	const draws = 3
	for _, sigma := range sigmas {
		a := RelevanceAUC{Sigma: sigma}
		for draw := range draws {
			random := rng.New(c.Seed, "relevance", strconv.Itoa(draw))
			answer := &release.Release{Query: asked.Name(), Bound: asked.Bound(), Sensitivity: asked.Bound(), Sigma: sigma,
				Clients: held.Clients, Sum: make([]float64, len(truth))}
			for j, v := range truth {
				answer.Sum[j] = v + answer.NoiseStd()*random.NormFloat64()
			}
			scores := pool.Read(answer).Scores(pool.Vectors)
			relevance, err := scoring.Relevance(scores, levels...)
			if err != nil {
				return nil, err
			}
			a.Text += domainAUC(texts, domain, scores) / draws
			a.Documents += domainAUC(texts, domain, relevance) / draws
		}
		q.AUC = append(q.AUC, a)
	}
	return q, nil
}

// domainAUC says how well scores tell texts of the domain from the others.
func domainAUC(texts []datasets.Text, domain map[string]bool, scores []float64) float64 {
	var in, out []float64
	for i, t := range texts {
		if domain[t.Text] {
			in = append(in, scores[i])
		} else {
			out = append(out, scores[i])
		}
	}
	return metrics.AUC(in, out)
}
