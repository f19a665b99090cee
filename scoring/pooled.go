package scoring

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Pooled estimates the clients' mean embedding m from the releases of several rounds, by least squares weighted by
// their noise. With round r's samples V_r (as prepared), gain g_r ([Samples.Gain]), released mean y_r over the clients,
// and noise of standard deviation ν_r in each of its values:
//
//	y_r = g_r·V_r·m + noise            m̂ minimises Σ_r ‖y_r − g_r·V_r·m‖²/ν_r²
//	m̂ = A⁺·b                           A = Σ_r (g_r/ν_r)²·V_rᵀV_r,  b = Σ_r g_r/ν_r²·V_rᵀ·y_r
//	scores of round t: g_t·V_t·m̂
//
// With one release these are its projection ([Samples.Project]). With more, their noise is at most that of the
// projection, in every direction (Gauss-Markov), so they need no ridge however small an eigenvalue of A is. The model
// neglects that a client's weight, which normalising and clipping decide, changes with the samples otherwise than the
// mean weight g does.
type Pooled struct {
	dim      int
	releases int
	a        []float64 // dim×dim
	b        []float64 // dim

	spectrum *basis // of a; nil until it is needed
}

// NewPooled returns an estimate without releases, for embeddings of dim values.
func NewPooled(dim int) *Pooled {
	return &Pooled{dim: dim, a: make([]float64, dim*dim), b: make([]float64, dim)}
}

// RestorePooled returns the estimate whose sums are a (dim×dim) and b (dim), from [Pooled.Sums].
func RestorePooled(releases int, a, b []float64) (*Pooled, error) {
	if len(b) == 0 || len(a) != len(b)*len(b) || releases < 0 {
		return nil, fmt.Errorf("scoring: pooled sums of %d and %d values over %d releases", len(a), len(b), releases)
	}
	if floats.HasNaN(a) || floats.HasNaN(b) || math.IsInf(floats.Norm(a, math.Inf(1)), 1) ||
		math.IsInf(floats.Norm(b, math.Inf(1)), 1) {
		return nil, fmt.Errorf("scoring: pooled sums that are no finite numbers")
	}
	return &Pooled{dim: len(b), releases: releases, a: slices.Clone(a), b: slices.Clone(b)}, nil
}

// Sums returns A and b, by which the estimate can be kept on disk. They are computed from releases and samples alone.
func (p *Pooled) Sums() (a, b []float64) { return slices.Clone(p.a), slices.Clone(p.b) }

// Releases is the number of releases in the estimate.
func (p *Pooled) Releases() int { return p.releases }

// PooledRelease is a release as a mean over the clients.
type PooledRelease struct {
	Samples *Samples
	// Mean has a value for each sample; as many as a [Compact] question has if Compact is true.
	Mean    []float64
	Compact bool
	// Gain is that of [Samples.Gain], above 0.
	Gain float64
	// Noise is ν, the standard deviation of the noise in each value of Mean; above 0.
	Noise float64
}

// Add takes a release into the estimate.
func (p *Pooled) Add(r PooledRelease) error {
	if r.Samples.d != p.dim {
		return fmt.Errorf("scoring: samples of %d dimensions in a pooled estimate of %d", r.Samples.d, p.dim)
	}
	if !(r.Gain > 0 && r.Noise > 0) || math.IsInf(r.Gain, 1) || math.IsInf(r.Noise, 1) {
		return fmt.Errorf("scoring: a release with gain %g and noise %g, want numbers above 0", r.Gain, r.Noise)
	}
	if floats.HasNaN(r.Mean) || len(r.Mean) > 0 && math.IsInf(floats.Norm(r.Mean, math.Inf(1)), 1) {
		return fmt.Errorf("scoring: a release with values that are no finite numbers")
	}
	want := r.Samples.n
	if r.Compact {
		want = max(1, r.Samples.Rank())
	}
	if len(r.Mean) != want {
		return fmt.Errorf("scoring: a release of %d values, want %d", len(r.Mean), want)
	}
	t := make([]float64, p.dim) // Vᵀ·y
	if r.Compact {
		b := r.Samples.decompose()
		for k, λ := range b.values {
			floats.AddScaled(t, math.Sqrt(λ)*r.Mean[k], b.vectors[k])
		}
	} else {
		copy(t, r.Samples.applyTransposed(r.Mean))
	}
	weight := r.Gain / r.Noise
	floats.AddScaled(p.a, weight*weight, r.Samples.gram)
	floats.AddScaled(p.b, weight/r.Noise, t)
	p.releases++
	p.spectrum = nil
	return nil
}

// decompose returns the directions of A that hold more than rounding errors.
func (p *Pooled) decompose() (*basis, error) {
	if p.spectrum != nil {
		return p.spectrum, nil
	}
	b, err := eigenbasis(p.a, p.dim)
	p.spectrum = b
	return b, err
}

// Scores returns g·V·m̂, the scores of samples whose gain is g: an estimate of their mean scores over the clients.
func (p *Pooled) Scores(s *Samples, gain float64) ([]float64, error) {
	if s.d != p.dim {
		return nil, fmt.Errorf("scoring: samples of %d dimensions in a pooled estimate of %d", s.d, p.dim)
	}
	b, err := p.decompose()
	if err != nil {
		return nil, err
	}
	mean := b.solve(p.b)
	floats.Scale(gain, mean)
	return s.apply(mean), nil
}

// Noise is the standard deviation of the noise in the scores of samples whose gain is g, the root of its mean square:
// g²·V·A⁺·Vᵀ is its covariance.
func (p *Pooled) Noise(s *Samples, gain float64) (float64, error) {
	b, err := p.decompose()
	if err != nil {
		return 0, err
	}
	trace := 0.0
	gv := make([]float64, p.dim)
	for k, λ := range b.values {
		blas64.Gemv(blas.NoTrans, 1, general(p.dim, p.dim, s.gram), blas64.Vector{N: p.dim, Data: b.vectors[k], Inc: 1},
			0, blas64.Vector{N: p.dim, Data: gv, Inc: 1})
		trace += dot(b.vectors[k], gv) / λ
	}
	return gain * math.Sqrt(max(0, trace)/float64(s.n)), nil
}

// eigenbasis returns the eigenvalues of a symmetric matrix that are above rounding errors, largest first, with their
// vectors.
func eigenbasis(a []float64, dim int) (*basis, error) {
	var eigen mat.EigenSym
	if !eigen.Factorize(mat.NewSymDense(dim, a), true) {
		return nil, fmt.Errorf("scoring: a matrix of %d×%d has no eigenvectors", dim, dim)
	}
	values := eigen.Values(nil) // smallest first
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	b := &basis{}
	for k := dim - 1; k >= 0 && values[k] > rankTolerance*values[dim-1] && values[k] > 0; k-- {
		b.values = append(b.values, values[k])
		b.vectors = append(b.vectors, mat.Col(nil, k, &vectors))
	}
	return b, nil
}
