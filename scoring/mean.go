package scoring

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"popri/internal/numeric"
	"popri/scoring/query"
)

// The names of [Mean], by the treatment of a client's mean.
const (
	meanName     = "mean"      // clipped to the bound
	fullMeanName = "mean/full" // scaled to the bound, whatever its length
)

// MeanOptions say how a client's mean becomes a vector of bounded norm.
type MeanOptions struct {
	// Centre is subtracted first: public, of as many values as an embedding; nil is zero.
	Centre []float64
	// Full scales the vector to the bound instead of clipping it: every client then has the same weight, and no part of
	// the noise is wasted on a client with a short vector.
	Full  bool
	Bound float64 // the L2 norm; above 0
	// Checks is the number of zeros that every client appends. They move no sum and cost no privacy: in a release they
	// hold noise alone, by which an audit measures the noise.
	Checks int
}

// Mean asks for a client's mean embedding itself: d values that do not depend on any samples. The scores of any
// samples, at any time, follow from it, because a mean cosine is linear in the mean embedding.
type Mean struct {
	facts
	dim     int
	options MeanOptions
}

// NewMean makes the question for embeddings of dim values; key identifies the encoder and the centre.
func NewMean(dim int, o MeanOptions, key string) (Mean, error) {
	switch {
	case dim < 1 || !(o.Bound > 0) || math.IsInf(o.Bound, 1):
		return Mean{}, fmt.Errorf("scoring: a mean of %d values with norm bound %g", dim, o.Bound)
	case o.Checks < 0:
		return Mean{}, fmt.Errorf("scoring: a mean with %d check values", o.Checks)
	case o.Centre != nil && len(o.Centre) != dim:
		return Mean{}, fmt.Errorf("scoring: a centre of %d values for means of %d", len(o.Centre), dim)
	}
	o.Centre = slices.Clone(o.Centre)
	return Mean{facts{name: MeanNameOf(o), key: key, bound: o.Bound}, dim, o}, nil
}

// MeanNameOf is the name of the question with these options: "mean/full+1024" with 1024 check values.
func MeanNameOf(o MeanOptions) string {
	name := meanName
	if o.Full {
		name = fullMeanName
	}
	return CheckedName(name, o.Checks)
}

// parseMean is the inverse of MeanNameOf.
func parseMean(name string) (o MeanOptions, ok bool) {
	kind, checks := cutChecks(name)
	o.Checks = checks
	o.Full = kind == fullMeanName
	return o, MeanNameOf(o) == name
}

// Len implements query.Query.
func (m Mean) Len() int { return m.dim + m.options.Checks }

// Vector implements query.Query. A client without texts, whose mean is zero, answers zeros whatever the centre is.
func (m Mean) Vector(clients query.Clients, i int) ([]float64, error) {
	if clients.Dim != m.dim {
		return nil, m.otherDim(clients)
	}
	v := make([]float64, m.Len())
	return v, m.answer(v, clients.Row(i), i)
}

func (m Mean) otherDim(clients query.Clients) error {
	return fmt.Errorf("scoring: clients' embeddings have %d dimensions, the question %d", clients.Dim, m.dim)
}

// answer writes the vector of client i with this mean into v.
func (m Mean) answer(v, mean []float64, i int) error {
	empty := true
	for j, x := range mean {
		if !numeric.Finite(x) {
			return fmt.Errorf("scoring: client %d: value %d of the mean embedding is %g", i, j, x)
		}
		empty = empty && x == 0
		if v[j] = x; m.options.Centre != nil {
			v[j] -= m.options.Centre[j]
		}
	}
	switch {
	case empty:
		clear(v)
	case m.options.Full:
		scaleTo(v, m.options.Bound)
	default:
		Clip(v, m.options.Bound)
	}
	return nil
}

// scaleTo gives v, unless it is zero, the L2 norm c, in place.
func scaleTo(v []float64, c float64) {
	if norm := Clip(v, c); norm > 0 && norm < c {
		floats.Scale(c/norm, v)
		Clip(v, c) // a norm near zero is scaled with a large rounding error
	}
}

// Sum implements query.Query.
func (m Mean) Sum(clients query.Clients) ([]float64, error) {
	if clients.Dim != m.dim {
		return nil, m.otherDim(clients)
	}
	return vectorSum(m, clients.Clients, func(sum exactSum, from, to int) error {
		v := make([]float64, m.Len()) // of one client after the other
		for i := from; i < to; i++ {
			if err := m.answer(v, clients.Row(i), i); err != nil {
				return err
			}
			if err := sum.add(1, v); err != nil {
				return err
			}
		}
		return nil
	})
}
