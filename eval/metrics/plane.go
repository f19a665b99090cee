package metrics

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"popri/internal/numeric"
)

// Plane is the plane of a cloud's first two principal components, in which other clouds are looked at (POPri, Figures 2
// and 4).
type Plane struct {
	mean []float64
	axes *mat.Dense // a component a column
	// SD is the cloud's standard deviation along each component.
	SD [2]float64
}

// Plane returns the plane of the cloud's first two principal components, which it computes once.
func (g *Gaussian) Plane() (*Plane, error) { return g.plane() }

func (g *Gaussian) principal() (*Plane, error) {
	var svd mat.SVD
	if !svd.Factorize(g.factor, mat.SVDThin) {
		return nil, errors.New("metrics: the principal components did not converge")
	}
	var v mat.Dense
	svd.VTo(&v)
	dim, found := v.Dims()
	p := &Plane{mean: g.mean, axes: mat.NewDense(dim, 2, nil)}
	for j := range min(2, found) {
		p.axes.SetCol(j, mat.Col(nil, j, &v))
		p.SD[j] = svd.Values(nil)[j] // the factor's rows are scaled by 1/√(n−1)
	}
	return p, nil
}

// Project returns the coordinates of points in the plane; its origin is the mean of the plane's cloud.
func (p *Plane) Project(points []float32) ([][2]float64, error) {
	dim := len(p.mean)
	n, err := rows(points, dim)
	if err != nil {
		return nil, err
	}
	out := make([][2]float64, n)
	for i := range out {
		for j, v := range points[i*dim : (i+1)*dim] {
			out[i][0] += (float64(v) - p.mean[j]) * p.axes.At(j, 0)
			out[i][1] += (float64(v) - p.mean[j]) * p.axes.At(j, 1)
		}
	}
	return out, nil
}

// MedoidSpread is the median distance of points to their medoid, the point with the least sum of distances to all:
// small where a cloud is concentrated (POPri, Figure 4, lower left).
func MedoidSpread(points [][2]float64) (float64, error) {
	if len(points) == 0 {
		return 0, fmt.Errorf("metrics: no points have no medoid")
	}
	least, at := math.Inf(1), 0
	for i, p := range points {
		sum := 0.0
		for _, q := range points {
			if sum += math.Hypot(p[0]-q[0], p[1]-q[1]); sum >= least {
				break
			}
		}
		if sum < least {
			least, at = sum, i
		}
	}
	medoid := points[at]
	distances := numeric.Map(points, func(p [2]float64) float64 { return math.Hypot(p[0]-medoid[0], p[1]-medoid[1]) })
	slices.Sort(distances)
	n := len(distances)
	return (distances[(n-1)/2] + distances[n/2]) / 2, nil
}
