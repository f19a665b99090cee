package metrics

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/mat"

	"popri/internal/numeric"
)

// Gaussian is a cloud of points with its mean and a factor of its covariance, which the Fréchet distance needs. It can
// be compared with many others.
type Gaussian struct {
	points []float32
	mean   []float64
	// factor is A with AᵀA = C, the covariance with n−1: the triangular factor of the centred points over √(n−1), or
	// the points themselves where there are fewer than dimensions.
	factor *mat.Dense
	trace  float64
	plane  func() (*Plane, error)
}

// Dim is the number of dimensions.
func (g *Gaussian) Dim() int { return len(g.mean) }

// NewGaussian computes mean and covariance of points of dim values each, at least two, which it keeps.
func NewGaussian(points []float32, dim int) (*Gaussian, error) {
	n, err := rows(points, dim)
	if err != nil {
		return nil, err
	}
	if n < 2 {
		return nil, fmt.Errorf("metrics: %d points have no covariance, at least 2 are needed", n)
	}
	g := &Gaussian{points: points, mean: make([]float64, dim)}
	g.plane = sync.OnceValues(g.principal)
	for i, v := range points {
		g.mean[i%dim] += float64(v)
	}
	for j := range g.mean {
		g.mean[j] /= float64(n)
	}
	scale := 1 / math.Sqrt(float64(n-1))
	centred := make([]float64, len(points))
	for i, v := range points {
		centred[i] = (float64(v) - g.mean[i%dim]) * scale
		g.trace += centred[i] * centred[i]
	}
	g.factor = mat.NewDense(n, dim, centred)
	if n > dim {
		var qr mat.QR
		qr.Factorize(g.factor)
		var r mat.Dense
		qr.RTo(&r)
		g.factor = mat.DenseCopyOf(r.Slice(0, dim, 0, dim))
	}
	return g, nil
}

// Apart is the L2 distance of the means: the part of [Gaussian.Distance] that does not depend on spreads, not squared.
func (g *Gaussian) Apart(other *Gaussian) (float64, error) {
	if g.Dim() != other.Dim() {
		return 0, fmt.Errorf("metrics: Gaussians of %d and %d dimensions", g.Dim(), other.Dim())
	}
	squares := 0.0
	for i, x := range g.mean {
		squares += (x - other.mean[i]) * (x - other.mean[i])
	}
	return math.Sqrt(squares), nil
}

// Distance returns the Fréchet distance of two Gaussians, never below 0.
//
// The trace of (Cx Cy)^½ is the sum of the singular values of A Bᵀ, where Cx = AᵀA and Cy = BᵀB. That way nothing is
// squared, and a covariance without full rank, which fewer points than dimensions always have, loses no digits to the
// root of rounding errors as the usual matrix square root does.
func (g *Gaussian) Distance(other *Gaussian) (float64, error) {
	if len(g.mean) != len(other.mean) {
		return 0, fmt.Errorf("metrics: points of %d and of %d dimensions", len(g.mean), len(other.mean))
	}
	distance := g.trace + other.trace
	for j, m := range g.mean {
		distance += (m - other.mean[j]) * (m - other.mean[j])
	}
	var product mat.Dense
	product.Mul(g.factor, other.factor.T())
	var svd mat.SVD
	if !svd.Factorize(&product, mat.SVDNone) {
		return 0, errors.New("metrics: the singular values of the covariances' product did not converge")
	}
	for _, s := range svd.Values(nil) {
		distance -= 2 * s
	}
	return max(distance, 0), nil
}

// rows returns the number of points, or an error if they do not fill rows or a value is not finite.
func rows(points []float32, dim int) (int, error) {
	if dim < 1 || len(points)%dim != 0 {
		return 0, fmt.Errorf("metrics: %d values are no points of %d dimensions", len(points), dim)
	}
	if i := numeric.NotFinite(points); i >= 0 {
		return 0, fmt.Errorf("metrics: value %d of point %d is %v, not a finite number", i%dim, i/dim, points[i])
	}
	return len(points) / dim, nil
}
