package scoring

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"popri/embedding"
	"popri/query"
)

// Compact asks for the same as [Cosine] in as few numbers as the scores have dimensions. With the eigenvalues λ_k and
// eigenvectors e_k of G = VᵀV, k up to Rank, and R the matrix with rows √λ_k·e_kᵀ, so that G = RᵀR,
//
//	y_i = w_i·R·m_i       instead of   s_i = w_i·V·m_i       ‖y_i‖ = ‖s_i‖: same clipping, sensitivity and charge
//	V·R⁺·(Σ y_i + noise)  equals in distribution  Project(Σ s_i + noise)
//
// because V·R⁺ has orthonormal columns. A client needs R, and no sample.
type Compact struct {
	samples *Samples
	key     string
	root    []float64 // Rank×d, but at least one row: R
}

// NewCompact prepares the question about samples (unit vectors, one a row); key identifies them.
func NewCompact(samples embedding.Matrix, options Options, key string) (Compact, error) {
	s, err := Prepare(samples, options)
	if err != nil {
		return Compact{}, err
	}
	b := s.decompose()
	c := Compact{samples: s, key: key, root: make([]float64, max(1, len(b.values))*s.d)}
	for k, λ := range b.values {
		for j, v := range b.vectors[k] {
			c.root[k*s.d+j] = math.Sqrt(λ) * v
		}
	}
	return c, nil
}

// CompactName is the name of the question under these options.
func CompactName(n Normalize) string { return "compact/" + string(n) }

// Name implements query.Query.
func (c Compact) Name() string { return CompactName(c.samples.options.Normalize) }

// Key implements query.Query.
func (c Compact) Key() string { return c.key }

// Len implements query.Query: the rank of the samples.
func (c Compact) Len() int { return len(c.root) / c.samples.d }

// Bound implements query.Query.
func (c Compact) Bound() float64 { return c.samples.options.Clip }

// NeedsTexts implements query.Query: scores are linear in a client's mean.
func (c Compact) NeedsTexts() bool { return false }

// Vector implements query.Query.
func (c Compact) Vector(clients query.Clients, i int) ([]float64, error) {
	if clients.Dim != c.samples.d {
		return nil, fmt.Errorf("scoring: clients' embeddings have %d dimensions, samples %d", clients.Dim, c.samples.d)
	}
	mean := clients.Row(i)
	y := make([]float64, c.Len())
	for k := range y {
		y[k] = dot(c.root[k*c.samples.d:(k+1)*c.samples.d], mean)
	}
	return y, c.finish(mean, y)
}

// finish turns R·mean in y into the client's vector.
func (c Compact) finish(mean, y []float64) error {
	square, scale := dot(y, y), dot(mean, mean)
	switch {
	case math.IsNaN(square) || math.IsInf(square, 0):
		return fmt.Errorf("scoring: the client's embedding is no finite vector")
	case scale == 0: // no texts
		return nil
	case square > trusted*c.samples.trace*scale:
		w := c.samples.factor(0, math.Sqrt(square))
		for k := range y {
			y[k] *= w
		}
	default: // the scores tell more digits of such a vector than R·mean
		own, err := c.samples.ContributionOfMean(mean)
		if err != nil {
			return err
		}
		t := c.samples.applyTransposed(own)
		b := c.samples.decompose()
		for k, λ := range b.values {
			y[k] = dot(b.vectors[k], t) / math.Sqrt(λ)
		}
	}
	Clip(y, c.samples.options.Clip) // what rounding added
	return nil
}

// Sum implements query.Query.
func (c Compact) Sum(clients query.Clients) ([]float64, error) {
	if clients.Dim != c.samples.d {
		return nil, fmt.Errorf("scoring: clients' embeddings have %d dimensions, samples %d", clients.Dim, c.samples.d)
	}
	const block = 2048 // bounds the memory of M·Rᵀ
	r := c.Len()
	product := make([]float64, min(block, clients.Clients)*r)
	sum := newAccumulator(r)
	for from := 0; from < clients.Clients; from += block {
		rows := min(block, clients.Clients-from)
		m := general(rows, c.samples.d, clients.Data[from*c.samples.d:(from+rows)*c.samples.d])
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, m, general(r, c.samples.d, c.root), 0, general(rows, r, product[:rows*r]))
		for i := range rows {
			y := product[i*r : (i+1)*r]
			if err := c.finish(m.Data[i*c.samples.d:(i+1)*c.samples.d], y); err != nil {
				return nil, fmt.Errorf("scoring: client %d: %w", from+i, err)
			}
			sum.add(1, y)
		}
	}
	return sum.value(), nil
}

// Expand turns a sum of [Compact] vectors about these samples into scores, one for each sample: V·R⁺·y.
func (s *Samples) Expand(y []float64) ([]float64, error) {
	b := s.decompose()
	if want := max(1, len(b.values)); len(y) != want {
		return nil, fmt.Errorf("scoring: a compact sum of %d values for samples of rank %d", len(y), want)
	}
	u := make([]float64, s.d)
	for k, λ := range b.values {
		for j, v := range b.vectors[k] {
			u[j] += y[k] / math.Sqrt(λ) * v
		}
	}
	return s.apply(u), nil
}
