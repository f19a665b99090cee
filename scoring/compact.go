package scoring

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"popri/model/embedding"
	"popri/scoring/query"
)

// Compact asks for the same as [Cosine] in as few numbers as the scores have dimensions. With the eigenvalues λ_k and
// eigenvectors e_k of G = VᵀV, k up to Rank, and R the matrix with rows √λ_k·e_kᵀ, so that G = RᵀR,
//
//	y_i = w_i·R·m_i       instead of   s_i = w_i·V·m_i       ‖y_i‖ = ‖s_i‖: same clipping, sensitivity and charge
//	V·R⁺·(Σ y_i + noise)  equals in distribution  Project(Σ s_i + noise)
//
// because V·R⁺ has orthonormal columns. A client needs R, and no sample.
type Compact struct {
	facts
	samples *Samples
	rank    int
	columns []float64 // d×rank: Rᵀ
	squares []float64 // rank: the squared lengths λ of R's rows
}

// NewCompact prepares the question about samples (unit vectors, one a row); key identifies them.
func NewCompact(samples embedding.Matrix, options Options, key string) (Compact, error) {
	s, err := Prepare(samples, options)
	if err != nil {
		return Compact{}, err
	}
	b := s.decompose()
	root := make([]float64, max(1, len(b.values))*s.d) // at least one row
	for k, λ := range b.values {
		for j, v := range b.vectors[k] {
			root[k*s.d+j] = math.Sqrt(λ) * v
		}
	}
	return compact(s, root, key), nil
}

// restoreCompact prepares the question with the matrix R (rank×d) of another machine ([Compact.Root]). Eigenvectors are
// not unique, and machines compute them differently, but all parts of a sum need the same ones.
func restoreCompact(samples embedding.Matrix, root []float64, options Options, key string) (Compact, error) {
	s, err := Prepare(samples, options)
	if err != nil {
		return Compact{}, err
	}
	if len(root) == 0 || len(root)%s.d != 0 || len(root)/s.d > s.d {
		return Compact{}, fmt.Errorf("scoring: a root of %d values for samples of %d dimensions", len(root), s.d)
	}
	// RᵀR must be G: a client's vector would not keep its bound otherwise.
	gram, difference := make([]float64, s.d*s.d), 0.0
	r := general(len(root)/s.d, s.d, root)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, r, r, 0, general(s.d, s.d, gram))
	for j, v := range gram {
		difference = math.Max(difference, math.Abs(v-s.gram[j]))
	}
	if !(difference <= 1e-9*s.trace) {
		return Compact{}, fmt.Errorf("scoring: the root does not belong to the samples: their Gram matrices differ by %g",
			difference)
	}
	return compact(s, root, key), nil
}

func compact(s *Samples, root []float64, key string) Compact {
	rank := len(root) / s.d
	c := Compact{facts{name: CompactName(s.options.Normalize), key: key, bound: s.options.Clip}, s, rank,
		make([]float64, len(root)), make([]float64, rank)}
	for k := range rank {
		row := root[k*s.d : (k+1)*s.d]
		c.squares[k] = dot(row, row)
		for j, v := range row {
			c.columns[j*rank+k] = v
		}
	}
	return c
}

// Root returns R, of Len rows.
func (c Compact) Root() []float64 {
	root := make([]float64, len(c.columns))
	for j := range c.samples.d {
		for k := range c.rank {
			root[k*c.samples.d+j] = c.columns[j*c.rank+k]
		}
	}
	return root
}

// Samples are the prepared samples, which read an answer.
func (c Compact) Samples() *Samples { return c.samples }

// CompactName is the name of the question under these options.
func CompactName(n Normalize) string { return "compact/" + string(n) }

// Len implements query.Query: the rank of the samples.
func (c Compact) Len() int { return c.rank }

// Vector implements query.Query.
func (c Compact) Vector(clients query.Clients, i int) ([]float64, error) {
	if clients.Dim != c.samples.d {
		return nil, fmt.Errorf("scoring: clients' embeddings have %d dimensions, samples %d", clients.Dim, c.samples.d)
	}
	y := make([]float64, c.rank)
	c.product(clients.Row(i), y)
	return y, c.finish(clients.Row(i), y)
}

// product writes R·mean for each row of means into a row of y. A row does not depend on the others.
func (c Compact) product(means, y []float64) {
	rows := len(y) / c.rank
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(rows, c.samples.d, means),
		general(c.samples.d, c.rank, c.columns), 0, general(rows, c.rank, y))
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
		c.product(t, y)
		for k, λ := range c.squares {
			if λ > 0 {
				y[k] /= λ
			}
		}
	}
	Clip(y, c.samples.options.Clip) // what rounding added
	return nil
}

// Sum implements query.Query.
func (c Compact) Sum(clients query.Clients) ([]float64, error) {
	d := c.samples.d
	if clients.Dim != d {
		return nil, fmt.Errorf("scoring: clients' embeddings have %d dimensions, samples %d", clients.Dim, d)
	}
	return vectorSum(c, clients.Clients, func(sum exactSum, from, to int) error {
		const block = 256 // bounds the memory of M·Rᵀ
		product := make([]float64, min(block, to-from)*c.rank)
		for ; from < to; from += block {
			rows := min(block, to-from)
			means := clients.Data[from*d : (from+rows)*d]
			c.product(means, product[:rows*c.rank])
			for i := range rows {
				y := product[i*c.rank : (i+1)*c.rank]
				err := c.finish(means[i*d:(i+1)*d], y)
				if err == nil {
					err = sum.add(1, y)
				}
				if err != nil {
					return fmt.Errorf("scoring: client %d: %w", from+i, err)
				}
			}
		}
		return nil
	})
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
