package scoring

import (
	"fmt"
	"slices"

	"popri/model/embedding"
	"popri/scoring/query"
)

// facts are what a query says of itself, see query.Question and [query.Query].
type facts struct {
	name, key string
	bound     float64
	texts     bool // each text votes; otherwise scores are linear in a client's mean
}

func (f facts) Name() string     { return f.name }
func (f facts) Key() string      { return f.key }
func (f facts) Bound() float64   { return f.bound }
func (f facts) NeedsTexts() bool { return f.texts }

// Question is a query as what a machine far away needs to ask its clients: public values alone.
type Question struct {
	Name  string
	Key   string
	Bound float64
	// Samples are unit vectors, one a row; empty for a [Mean].
	Samples embedding.Matrix
	// Centre is the centre of a [Mean].
	Centre []float64
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
	case NearestVotes:
		q.Samples = a.samples
	case ClippedCosine:
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
	return q.query(len(q.Centre), func(name string) (query.Query, error) {
		return nil, fmt.Errorf("scoring: no question that travels is named %.80q", name)
	})
}

// Ask makes the query of the given name and norm bound about samples. It knows every query of this package, so that an
// audit can repeat the question that a release answers.
func Ask(name string, bound float64, samples embedding.Matrix, key string) (query.Query, error) {
	q := Question{Name: name, Key: key, Bound: bound, Samples: samples}
	return q.query(samples.Dim, func(name string) (query.Query, error) {
		if choices, ok := parseContrast(name); ok {
			return NewContrast(samples, nil, choices, bound, key)
		}
		return nil, fmt.Errorf("scoring: no query is named %.80q", name)
	})
}

// query makes the query of the question's name; dim is the length of a [Mean], and other makes what it does not know.
func (q Question) query(dim int, other func(name string) (query.Query, error)) (query.Query, error) {
	if o, ok := parseMean(q.Name); ok {
		o.Bound, o.Centre = q.Bound, q.Centre
		return NewMean(dim, o, q.Key)
	}
	if kind, n := cutChecks(q.Name); n > 0 {
		q.Name = kind
		inner, err := q.query(dim, other)
		if err != nil {
			return nil, err
		}
		return WithChecks(inner, n), nil
	}
	for _, n := range normalizations {
		if q.Name == CosineName(n) {
			return NewCosine(q.Samples, Options{Normalize: n, Clip: q.Bound}, q.Key)
		}
	}
	if o, ok := parseVotes(q.Name); ok {
		o.Bound = q.Bound
		return NewVotes(q.Samples, o, q.Key)
	}
	if most, ok := parseClippedCosine(q.Name); ok {
		return NewClippedCosine(q.Samples, most, q.Bound, q.Key)
	}
	return other(q.Name)
}
