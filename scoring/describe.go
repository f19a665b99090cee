package scoring

import (
	"fmt"
	"slices"

	"popri/model/embedding"
	"popri/scoring/query"
)

// Question is a query as what a machine far away needs to ask its clients: public values alone.
type Question struct {
	Name  string
	Key   string
	Bound float64
	// Samples are unit vectors, one a row; empty for a [Mean].
	Samples embedding.Matrix
	// Centre is that of a [Mean].
	Centre []float64
	// Root is R of a [Compact].
	Root []float64
}

// Describe returns the question of a query of this package.
func Describe(question query.Question) (Question, error) {
	q := Question{Name: question.Name(), Key: question.Key(), Bound: question.Bound()}
	asked, ok := question.(query.Query)
	if !ok {
		return q, fmt.Errorf("scoring: the question %q is not about embeddings", question.Name())
	}
	inner, _ := Unchecked(asked)
	switch a := inner.(type) {
	case Cosine:
		q.Samples = a.given
	case Compact:
		q.Samples, q.Root = a.samples.given, a.Root()
	case NearestVotes:
		q.Samples = a.samples
	case Mean:
		q.Centre = slices.Clone(a.options.Centre)
		if q.Centre == nil {
			q.Centre = make([]float64, a.dim)
		}
	default:
		return q, fmt.Errorf("scoring: the question %q cannot be carried to another machine", asked.Name())
	}
	return q, nil
}

// Query makes the query again. It refuses values that do not fit the name.
func (q Question) Query() (query.Query, error) {
	if o, ok := parseMean(q.Name); ok {
		o.Bound, o.Centre = q.Bound, q.Centre
		return NewMean(len(q.Centre), o, q.Key)
	}
	if kind, n := cutChecks(q.Name); n > 0 {
		unchecked := q
		unchecked.Name = kind
		inner, err := unchecked.Query()
		if err != nil {
			return nil, err
		}
		return WithChecks(inner, n), nil
	}
	for _, n := range normalizations {
		o := Options{Normalize: n, Clip: q.Bound}
		switch q.Name {
		case CosineName(n):
			return NewCosine(q.Samples, o, q.Key)
		case CompactName(n):
			return RestoreCompact(q.Samples, q.Root, o, q.Key)
		}
	}
	o, err := parseVotes(q.Name)
	if err != nil {
		return nil, fmt.Errorf("scoring: no question that travels is named %.80q", q.Name)
	}
	o.Bound = q.Bound
	return NewVotes(q.Samples, o, q.Key)
}

// Dim is the length of the embeddings that clients are asked about.
func (q Question) Dim() int {
	if q.Samples.Dim > 0 {
		return q.Samples.Dim
	}
	return len(q.Centre)
}
