package scoring

import (
	"fmt"

	"popri/model/embedding"
	"popri/scoring/query"
)

// Cosine asks for a client's mean cosine with each sample, optionally standardised, clipped (POPri, algorithm 1).
type Cosine struct {
	*Samples
	key string
}

// NewCosine prepares the question about samples (unit vectors, one a row); key identifies them.
func NewCosine(samples embedding.Matrix, options Options, key string) (Cosine, error) {
	s, err := Prepare(samples, options)
	return Cosine{s, key}, err
}

// CosineName is the name of the question under these options.
func CosineName(n Normalize) string { return "cosine/" + string(n) }

// Name implements query.Query.
func (c Cosine) Name() string { return CosineName(c.options.Normalize) }

// Key implements query.Query.
func (c Cosine) Key() string { return c.key }

// Bound implements query.Query.
func (c Cosine) Bound() float64 { return c.options.Clip }

// NeedsTexts implements query.Query: scores are linear in a client's mean.
func (c Cosine) NeedsTexts() bool { return false }

// Vector implements query.Query.
func (c Cosine) Vector(clients query.Clients, i int) ([]float64, error) {
	return c.ContributionOfMean(clients.Row(i))
}

// Sum implements query.Query.
func (c Cosine) Sum(clients query.Clients) ([]float64, error) { return c.Samples.Sum(clients.Means) }

// Ask makes the query of the given name and norm bound about samples. It knows every query of this package, so that an
// audit can repeat the question that a release answers.
func Ask(name string, bound float64, samples embedding.Matrix, key string) (query.Query, error) {
	for _, n := range normalizations {
		o := Options{Normalize: n, Clip: bound}
		switch name {
		case CosineName(n):
			return NewCosine(samples, o, key)
		case CompactName(n):
			return NewCompact(samples, o, key)
		}
	}
	if o, ok := parseMean(name); ok {
		o.Bound = bound
		return NewMean(samples.Dim, o, key)
	}
	if kind, n := cutChecks(name); n > 0 {
		inner, err := Ask(kind, bound, samples, key)
		if err != nil {
			return nil, err
		}
		return WithChecks(inner, n), nil
	}
	if q, ok := parseContrast(name); ok {
		return NewContrast(samples, nil, q, bound, key)
	}
	o, err := parseVotes(name)
	if err != nil {
		return nil, fmt.Errorf("scoring: no query is named %.80q", name)
	}
	o.Bound = bound
	return NewVotes(samples, o, key)
}
