package scoring

import (
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"popri/internal/numeric"
	"popri/internal/parallel"
)

// basis has the directions of the space of all true sums.
type basis struct {
	values  []float64   // kept eigenvalues of G, largest first
	vectors [][]float64 // eigenvectors of G, one for each value
}

// rankTolerance is the least eigenvalue of G that counts, relative to the largest: directions of Ê with less than a
// millionth of the largest singular value hold rounding errors instead of scores.
const rankTolerance = 1e-12

func (s *Samples) decompose() *basis {
	s.spectrum.Do(func() {
		if b, err := eigenbasis(s.gram, s.d); err == nil { // no basis: impossible for finite input, and Rank 0 shows it
			s.basis = *b
		}
	})
	return &s.basis
}

// Rank is the dimension of the space of the clients' vectors, and so of the true sum: at most d for any samples.
func (s *Samples) Rank() int { return len(s.decompose().values) }

// Project returns the part of a noised sum in the space of true sums: the orthogonal projection onto the columns of Ê
// (less their means, where scores are standardised). The true sum stays as it is and white noise keeps Rank/n of its
// variance, so the result is unbiased with sqrt(Rank/n) of the noise.
//
// It solves the least-squares problem through the eigenvectors of G = VᵀV, which scoring has computed anyhow, and
// refines the solution on the residual, which gives the accuracy of a QR factorisation of V at a fraction of its cost.
func (s *Samples) Project(y []float64) ([]float64, error) {
	if len(y) != s.n {
		return nil, fmt.Errorf("scoring: a sum of %d values for %d samples", len(y), s.n)
	}
	if i := numeric.NotFinite(y); i >= 0 {
		return nil, fmt.Errorf("scoring: the sum has value %g for sample %d", y[i], i)
	}
	b := s.decompose()
	u := make([]float64, s.d) // the least-squares solution: V u is the projection
	residual := append([]float64(nil), y...)
	for range 3 {
		step := b.scaled(weightedSum(s.v, s.d, residual), func(λ float64) float64 { return 1 / λ }) // G⁺ Vᵀ residual
		for j := range u {
			u[j] += step[j]
		}
		for i, v := range s.apply(u) {
			residual[i] = y[i] - v
		}
	}
	return s.apply(b.scaled(u, func(float64) float64 { return 1 })), nil
}

// scaled returns Σ_k scale(λ_k)·(v_kᵀ x)·v_k.
func (b *basis) scaled(x []float64, scale func(float64) float64) []float64 {
	out := make([]float64, len(x))
	for k, λ := range b.values {
		c := dot(b.vectors[k], x) * scale(λ)
		for j, v := range b.vectors[k] {
			out[j] += c * v
		}
	}
	return out
}

// weightedSum returns Σ_i w_i x_i for rows x_i of d values, added in fixed blocks so that the result does not depend on
// the number of processors.
func weightedSum[T float32 | float64](rows []T, d int, weights []float64) []float64 {
	const block = 1024
	partial := make([][]float64, (len(weights)+block-1)/block)
	parallel.Ranges(len(partial), 1, func(from, to int) {
		for b := from; b < to; b++ {
			sum := make([]float64, d)
			for i := b * block; i < min(len(weights), (b+1)*block); i++ {
				w := weights[i]
				for j, x := range rows[i*d : (i+1)*d] {
					sum[j] += w * float64(x)
				}
			}
			partial[b] = sum
		}
	})
	out := make([]float64, d)
	for _, p := range partial {
		floats.Add(out, p)
	}
	return out
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
