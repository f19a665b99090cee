package scoring

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"popri/internal/numeric"
	"popri/internal/parallel"
	"popri/model/embedding"
	"popri/scoring/query"
)

// Normalize is the treatment of a client's scores before clipping.
type Normalize string

const (
	// None clips the mean cosines as they are (the paper).
	None Normalize = "none"
	// Standardized subtracts the mean over the samples and divides by the deviation (the published code): every client
	// then has the same weight, whatever the level and spread of its cosines.
	Standardized Normalize = "standardize"
)

// normalizations are all treatments.
var normalizations = []Normalize{None, Standardized}

// Options say how a client makes its vector.
type Options struct {
	Normalize Normalize // no default: the caller decides
	Clip      float64   // C, the L2 norm that no client's vector exceeds; above 0
}

// Validate returns an error that names the bad value.
func (o Options) Validate() error {
	if o.Normalize != None && o.Normalize != Standardized {
		return fmt.Errorf("scoring: normalize is %q, want %q or %q", o.Normalize, None, Standardized)
	}
	if !(o.Clip > 0) || math.IsInf(o.Clip, 1) {
		return fmt.Errorf("scoring: clip norm is %g, want a number above 0", o.Clip)
	}
	return nil
}

// Samples is a round's samples, prepared for scoring by many clients. Its methods are safe for concurrent use.
type Samples struct {
	options Options
	n, d    int
	given   embedding.Matrix
	v       []float64 // n×d: Ê, or Ê less its column means where scores are standardised
	gram    []float64 // d×d: VᵀV
	trace   float64   // ‖V‖² in the Frobenius norm, the scale of rounding errors in products with gram

	spectrum sync.Once
	basis    basis
}

// Prepare widens and, for standardised scores, centres the samples (unit vectors, one a row), and computes their Gram
// matrix: O(n·d²).
func Prepare(samples embedding.Matrix, options Options) (*Samples, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	if err := samples.Check(); err != nil {
		return nil, fmt.Errorf("scoring: samples: %w", err)
	}
	if samples.Rows < 1 {
		return nil, fmt.Errorf("scoring: there are no samples")
	}
	s := &Samples{options: options, n: samples.Rows, d: samples.Dim, given: samples, v: make([]float64, len(samples.Data))}
	for i, x := range samples.Data {
		if !numeric.Finite(x) {
			return nil, fmt.Errorf("scoring: sample %d has value %g", i/s.d, x)
		}
		s.v[i] = float64(x)
	}
	if options.Normalize == Standardized {
		center(s.v, s.d)
	}
	s.gram = make([]float64, s.d*s.d)
	v := s.general()
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, v, v, 0, general(s.d, s.d, s.gram))
	for j := range s.d {
		s.trace += s.gram[j*s.d+j]
	}
	return s, nil
}

// center subtracts the mean of each column, twice, so that the rounding error of the mean is removed too.
func center(v []float64, d int) {
	n := len(v) / d
	mean := make([]float64, d)
	for range 2 {
		clear(mean)
		for i := 0; i < len(v); i += d {
			for j, x := range v[i : i+d] {
				mean[j] += x
			}
		}
		for j := range mean {
			mean[j] /= float64(n)
		}
		for i := 0; i < len(v); i += d {
			for j := range mean {
				v[i+j] -= mean[j]
			}
		}
	}
}

func general(rows, cols int, data []float64) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: data}
}

func (s *Samples) general() blas64.General { return general(s.n, s.d, s.v) }

// Len returns the number of samples n.
func (s *Samples) Len() int { return s.n }

// Sum adds the clipped vectors of all clients by the fast path: n values. It is private data until noise is added.
//
// A client's vector is w·V·mean, so that Σ w·mean, of d values, is all that is gathered, and V is applied to it once.
// The norm that w divides by comes from the Gram matrix, which has digits enough for nearly every client; the others,
// whose scores are nearly constant or nearly zero, add their own vector, computed and clipped by the reference path.
// (Their w would be so large that rounding alone moved the sum, beyond what noise.Grid allows.) Clients are added up in
// whole numbers and V is applied with twice the digits of a float64: taking a client away changes the sum by that
// client's vector and by nothing else.
func (s *Samples) Sum(clients query.Means) ([]float64, error) {
	if clients.Dim != s.d {
		return nil, fmt.Errorf("scoring: clients' embeddings have %d dimensions, samples %d", clients.Dim, s.d)
	}
	// What [Samples.weight] trusts has ‖V·mean‖² > trusted·‖V‖²·‖mean‖² and w·‖V·mean‖ ≤ C.
	limit := s.options.Clip
	if s.trace > 0 {
		limit /= math.Sqrt(trusted * s.trace)
	}
	means, err := newExactSum(s.d, limit) // Σ w·mean
	if err != nil {
		return nil, err
	}
	direct, err := newExactSum(s.n, s.options.Clip) // the vectors that were computed by themselves
	if err != nil {
		return nil, err
	}
	err = inParallel(clients.Clients, []exactSum{means, direct}, func(sums []exactSum, from, to int) error {
		// Blocks bound the memory of M·G. A row of the product does not depend on the others.
		const block = 256
		product := make([]float64, min(block, to-from)*s.d)
		for ; from < to; from += block {
			rows := min(block, to-from)
			m := general(rows, s.d, clients.Data[from*s.d:(from+rows)*s.d])
			t := general(rows, s.d, product[:rows*s.d])
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, m, general(s.d, s.d, s.gram), 0, t)
			for i := range rows {
				if err := s.add(sums[0], sums[1], m.Data[i*s.d:(i+1)*s.d], t.Data[i*s.d:(i+1)*s.d]); err != nil {
					return fmt.Errorf("scoring: client %d: %w", from+i, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.spread(unevaluate(means), unevaluate(direct)), nil
}

// add adds a client with this mean, gm being G·mean, to one of the sums of [Samples.Sum].
func (s *Samples) add(means, direct exactSum, mean, gm []float64) error {
	if dot(mean, mean) == 0 { // no texts
		return nil
	}
	if weight, ok := s.weight(mean, gm); ok {
		return means.add(weight, mean)
	}
	own, err := s.ContributionOfMean(mean)
	if err != nil {
		return err
	}
	return direct.add(1, own)
}

// spread is V·u + direct: a sum of n values.
func (s *Samples) spread(u, direct unevaluated) []float64 {
	sum := make([]float64, s.n)
	parallel.Ranges(s.n, 256, func(from, to int) {
		for i := from; i < to; i++ {
			high, low := exactDot(s.v[i*s.d:(i+1)*s.d], u)
			high, rest := twoSum(high, direct.high[i])
			sum[i] = high + (low + rest + direct.low[i])
		}
	})
	return sum
}

// apply returns V u.
func (s *Samples) apply(u []float64) []float64 {
	sum := make([]float64, s.n)
	parallel.Ranges(s.n, 256, func(from, to int) {
		for i := from; i < to; i++ {
			sum[i] = dot(s.v[i*s.d:(i+1)*s.d], u)
		}
	})
	return sum
}

// trusted is the least fraction of the scale ‖V‖²·‖mean‖² that a squared norm from the Gram matrix must have. Rounding
// errs by a few parts in 1e16 of that scale, so by less than 1e-10 of a norm that passes: a tenth of what noise.Grid
// allows for clipping.
const trusted = 1e-5

// weight returns w such that the client's clipped vector is w·V·mean, or false if its own vector must be computed. gm
// is G·mean.
func (s *Samples) weight(mean, gm []float64) (float64, bool) {
	squared := dot(mean, gm)
	if !(squared > trusted*s.trace*dot(mean, mean)) || math.IsInf(squared, 1) {
		return 0, false
	}
	w := s.factor(0, math.Sqrt(squared))
	return w, w != 0
}

// ownWeight is weight for a client whose norm the Gram matrix does not give: from its scores.
func (s *Samples) ownWeight(mean []float64) float64 {
	scores := numeric.Tabulate(s.n, func(i int) float64 { return s.score(i, mean) })
	if s.options.Normalize == None {
		return s.factor(0, length(scores))
	}
	level, std := moments(scores)
	return s.factor(level, std*math.Sqrt(float64(s.n)))
}

// factor is the product of normalising and clipping for a vector of that norm; 0 for a vector that is constant up to
// rounding. level is the mean that was subtracted.
func (s *Samples) factor(level, norm float64) float64 {
	if s.options.Normalize == None {
		if norm > s.options.Clip {
			return s.options.Clip / norm
		}
		return 1
	}
	root := math.Sqrt(float64(s.n)) // the norm of every standardised vector
	std := norm / root
	if flat(level, std) {
		return 0
	}
	return min(1, s.options.Clip/root) / std
}

// score is the mean cosine of sample i with the texts of the client that has this mean.
func (s *Samples) score(i int, mean []float64) float64 {
	var sum float64
	for j, x := range s.given.Row(i) {
		sum += float64(x) * mean[j]
	}
	return sum
}

func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64 // four independent sums, so that additions need not wait for each other
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

// ContributionOfMean computes the clipped vector, of norm at most Clip, of a client with this mean text embedding, by
// the reference path. A mean of zeros, of no texts, gives zeros.
func (s *Samples) ContributionOfMean(mean []float64) ([]float64, error) {
	if len(mean) != s.d {
		return nil, fmt.Errorf("scoring: a client's embedding has %d dimensions, samples %d", len(mean), s.d)
	}
	scores := make([]float64, s.n)
	for i := range scores {
		sum := s.score(i, mean)
		if !numeric.Finite(sum) {
			return nil, fmt.Errorf("scoring: the score of sample %d is %g: the client's embedding is no finite vector", i, sum)
		}
		scores[i] = sum
	}
	if s.options.Normalize == Standardized {
		standardize(scores)
	}
	Clip(scores, s.options.Clip)
	return scores, nil
}
