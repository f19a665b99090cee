package scoring

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"popri/model/embedding"
)

// secondMoments has the products of a text's coordinates z = E(x − μ) along the leading principal directions of the public
// texts (rows of E), μ being their mean:
//
//	f(x) = z_a·z_b·(1 where a = b, √2 where a < b)       ⟨f(x), f(y)⟩ = ⟨z(x), z(y)⟩²
//
// The mean of them over texts is the texts' second moment, which shows how they are spread about the mean.
type secondMoments struct {
	directions []float64 // p×dim
	offsets    []float64 // p: Eμ
	key        string
}

func newMoments(public embedding.Matrix, p int) (secondMoments, error) {
	dim := public.Dim
	centred := make([]float64, len(public.Data))
	for i, v := range public.Data {
		centred[i] = float64(v)
	}
	mean := make([]float64, dim)
	for i := 0; i < len(centred); i += dim {
		for j := range mean {
			mean[j] += centred[i+j] / float64(public.Rows)
		}
	}
	center(centred, dim)
	covariance := make([]float64, dim*dim)
	x := general(public.Rows, dim, centred)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1/float64(public.Rows), x, x, 0, general(dim, dim, covariance))
	b, err := eigenbasis(covariance, dim)
	if err != nil {
		return secondMoments{}, err
	}
	// Directions beyond those in which the texts differ are zeros.
	m := secondMoments{directions: make([]float64, p*dim), offsets: make([]float64, p)}
	for a := range min(p, len(b.vectors)) {
		copy(m.directions[a*dim:], b.vectors[a])
		m.offsets[a] = dot(b.vectors[a], mean)
	}
	m.key = keyOf(MomentFeatures, m.directions, m.offsets)
	return m, nil
}

// Len implements [Features].
func (m secondMoments) Len() int { return len(m.offsets) * (len(m.offsets) + 1) / 2 }

// Key implements [Features].
func (m secondMoments) Key() string { return m.key }

// Of implements [Features].
func (m secondMoments) Of(out []float64, x []float32) {
	z := make([]float64, len(m.offsets))
	for a := range z {
		z[a] = dotOf(m.directions[a*len(x):(a+1)*len(x)], x) - m.offsets[a]
	}
	at := 0
	for a, u := range z {
		out[at] = u * u
		at++
		for _, v := range z[a+1:] {
			out[at] = math.Sqrt2 * u * v
			at++
		}
	}
}
