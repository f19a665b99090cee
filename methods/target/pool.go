package target

import (
	"context"
	"math"
	"path/filepath"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/internal/cachedir"
	"popri/internal/fault"
	"popri/methods/method"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// Pool is the public texts of a run with their vectors.
type Pool struct {
	Texts   []datasets.Text
	Vectors embedding.Matrix // the texts' embeddings
	Centre  []float64        // μ

	gain float64 // g
}

// Embed embeds the run's public texts: those that the generator was trained on. Vectors of an encoder with weights of
// its own, which takes minutes for a large pool, stay in the user's cache folder. tell, if not nil, is told how many
// texts are done.
func Embed(ctx context.Context, e method.Env, tell func(done, total int)) (*Pool, error) {
	texts, sentence := datasets.Strings(e.Public.Generator), embedding.Sentence(e.Encoder)
	encode := embedding.InParts
	if !slices.Contains(configs.Encoders, e.Config.Scoring.Encoder) {
		cache, err := cachedir.Dir()
		if err != nil {
			return nil, err
		}
		encode = func(ctx context.Context, e embedding.Encoder, texts []string, tell func(done, total int)) (embedding.Matrix,
			error) {
			return embedding.Stored(ctx, e, filepath.Join(cache, "vectors"), texts, tell)
		}
	}
	vectors, err := encode(ctx, sentence, texts, tell)
	if err != nil {
		return nil, err
	}
	if joined, ok := e.Encoder.(*embedding.Joined); ok {
		vectors = joined.Join(texts, vectors)
	}
	return newPool(e.Public.Generator, vectors)
}

// newPool makes the pool of public texts with these embeddings.
func newPool(texts []datasets.Text, vectors embedding.Matrix) (*Pool, error) {
	p := &Pool{Texts: texts, Vectors: vectors, Centre: mean(vectors)}
	var err error
	p.gain, err = gain(vectors, p.Centre, scoring.ClientTexts)
	return p, err
}

// gainGroups is the largest number of groups of public texts that stand for clients.
const gainGroups = 2048

// gain returns the mean of 1/‖m − centre‖ over the means m of groups of each successive rows.
func gain(rows embedding.Matrix, centre []float64, each int) (float64, error) {
	starts, size := scoring.Groups(rows.Rows, each, gainGroups)
	sum, counted := 0.0, 0
	m := make([]float64, rows.Dim)
	for _, at := range starts {
		query.MeanRow(m, rows.Slice(at, at+size))
		square := 0.0
		for j, v := range m {
			square += (v - centre[j]) * (v - centre[j])
		}
		if square > 0 {
			sum += 1 / math.Sqrt(square)
			counted++
		}
	}
	if counted == 0 {
		return 0, fault.Userf("data.public: the %d public texts are all alike to scoring.encoder", rows.Rows)
	}
	return sum / float64(counted), nil
}
