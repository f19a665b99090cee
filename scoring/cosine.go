package scoring

import (
	"popri/model/embedding"
	"popri/scoring/query"
)

// Cosine asks for a client's mean cosine with each sample, optionally standardised, clipped (POPri, algorithm 1).
type Cosine struct {
	*Samples
	facts
}

// NewCosine prepares the question about samples (unit vectors, one a row); key identifies them.
func NewCosine(samples embedding.Matrix, options Options, key string) (Cosine, error) {
	s, err := Prepare(samples, options)
	return Cosine{s, facts{name: CosineName(options.Normalize), key: key, bound: options.Clip}}, err
}

// CosineName is the name of the question under these options.
func CosineName(n Normalize) string { return "cosine/" + string(n) }

// Vector implements query.Query.
func (c Cosine) Vector(clients query.Clients, i int) ([]float64, error) {
	return c.ContributionOfMean(clients.Row(i))
}

// Sum implements query.Query.
func (c Cosine) Sum(clients query.Clients) ([]float64, error) { return c.Samples.Sum(clients.Means) }
