package scoring

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"popri/model/embedding"
	"popri/scoring/query"
)

// Joint asks for a client's mean embedding m and for the mean f of further features of its texts, both less their centre
// and in one vector:
//
//	v = [ √(1−s)·C·(m − μ)/‖m − μ‖,  √s·C·(f − φ)/‖f − φ‖,  0 … 0 ]      ‖v‖ ≤ C
//
// One norm bound holds for all of it, so there is one charge as for [Mean]. The zeros at the end are check values.
type Joint struct {
	mean     Mean // the first block, of norm bound √(1−s)·C
	features Features
	centre   []float64 // φ
	options  JointOptions
	key      string
}

// JointOptions say how a client's means become a vector of bounded norm.
type JointOptions struct {
	Features FeatureOptions
	Bound    float64 // C, the L2 norm; above 0
	Checks   int     // as in [MeanOptions]
}

// NewJoint makes the question. centre is μ and featureCentre φ; key identifies the encoder, the features and the centres.
func NewJoint(f Features, centre, featureCentre []float64, o JointOptions, key string) (Joint, error) {
	if err := o.Features.Validate(); err != nil {
		return Joint{}, err
	}
	if f.Len() != o.Features.Len() || f.Len() != len(featureCentre) {
		return Joint{}, fmt.Errorf("scoring: %d features with a centre of %d values, want %d", f.Len(), len(featureCentre),
			o.Features.Len())
	}
	if o.Checks < 0 {
		return Joint{}, fmt.Errorf("scoring: a joint mean with %d check values", o.Checks)
	}
	first, _ := o.Features.blocks(o.Bound)
	mean, err := NewMean(len(centre), MeanOptions{Centre: centre, Full: true, Bound: first}, key)
	return Joint{mean, f, slices.Clone(featureCentre), o, key}, err
}

// JointName is the name of the question with these options: "mean/full/fourier/256/0.3+1024" with 256 random Fourier
// features that have the share 0.3 of the squared norm bound, and 1024 check values.
func JointName(o JointOptions) string {
	return CheckedName(FullMeanName+"/"+o.Features.String(), o.Checks)
}

// parseJoint is the inverse of JointName.
func parseJoint(name string) (o JointOptions, ok bool) {
	kind, checks := cutChecks(name)
	o.Checks = checks
	features, ok := strings.CutPrefix(kind, FullMeanName+"/")
	if !ok {
		return o, false
	}
	o.Features, ok = parseFeatures(features)
	return o, ok && JointName(o) == name
}

// askJoint makes the question with features and centres of the given texts.
func askJoint(o JointOptions, public embedding.Matrix, key string) (Joint, error) {
	f, err := o.Features.Fit(public, 1)
	if err != nil {
		return Joint{}, err
	}
	centre, featureCentre := make([]float64, public.Dim), make([]float64, f.Len())
	query.MeanRow(centre, public)
	query.MeanRow(featureCentre, FeaturesOf(f, public))
	return NewJoint(f, centre, featureCentre, o, key)
}

// Name implements query.Query.
func (q Joint) Name() string { return JointName(q.options) }

// Key implements query.Query.
func (q Joint) Key() string { return q.key }

// Len implements query.Query.
func (q Joint) Len() int { return q.mean.dim + q.features.Len() + q.options.Checks }

// Bound implements query.Query.
func (q Joint) Bound() float64 { return q.options.Bound }

// NeedsTexts implements query.Query: features of a mean are not the mean of features.
func (q Joint) NeedsTexts() bool { return true }

// Vector implements query.Query.
func (q Joint) Vector(clients query.Clients, i int) ([]float64, error) {
	if !clients.HasTexts() {
		return nil, errors.New("scoring: features need each text's embedding")
	}
	first, err := q.mean.Vector(clients, i) // refuses another number of dimensions and a mean that is not finite
	if err != nil {
		return nil, err
	}
	v := make([]float64, q.Len())
	texts := clients.Of(i)
	if texts.Rows == 0 {
		return v, nil
	}
	copy(v, first)
	second := v[q.mean.dim : q.mean.dim+q.features.Len()]
	one := make([]float64, len(second))
	for t := range texts.Rows {
		for j, x := range texts.Row(t) {
			if !finite(x) {
				return nil, fmt.Errorf("scoring: client %d: value %d of text %d is %g", i, j, t, x)
			}
		}
		q.features.Of(one, texts.Row(t))
		for j, x := range one {
			second[j] += x / float64(texts.Rows)
		}
	}
	for j, x := range q.centre {
		second[j] -= x
	}
	_, bound := q.options.Features.blocks(q.options.Bound)
	scaleTo(second, bound)
	Clip(v, q.options.Bound) // what rounding added
	return v, nil
}

// Sum implements query.Query.
func (q Joint) Sum(clients query.Clients) ([]float64, error) { return sumOf(q, clients) }

// Finish implements query.Mergeable.
func (q Joint) Finish(p query.Partial) ([]float64, error) { return finished(q, p) }

// Partial implements query.Mergeable.
func (q Joint) Partial(clients query.Clients) (query.Partial, error) {
	const block = 512 // clients whose vectors are in memory at once
	sum, err := vectors(q)
	if err != nil {
		return query.Partial{}, err
	}
	some, faults := make([][]float64, min(block, clients.Clients)), make([]error, min(block, clients.Clients))
	for from := 0; from < clients.Clients; from += block {
		n := min(block, clients.Clients-from)
		parallelGrain(n, 16, func(first, last int) {
			for i := first; i < last; i++ {
				some[i], faults[i] = q.Vector(clients, from+i)
			}
		})
		for i := range n {
			if faults[i] == nil {
				faults[i] = sum.Add(1, some[i])
			}
			if faults[i] != nil {
				return query.Partial{}, faults[i]
			}
		}
	}
	return single(sum, nil)
}
