package metrics

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mat"
)

// AUC is the probability that a draw from high is above one from low, ties counted half: the area under the ROC curve.
func AUC(high, low []float64) float64 {
	sorted := slices.Sorted(slices.Values(low))
	total := 0.0
	for _, x := range high {
		below := sort.SearchFloat64s(sorted, x)
		upTo := sort.SearchFloat64s(sorted, math.Nextafter(x, math.Inf(1)))
		total += float64(below+upTo) / 2
	}
	return total / float64(len(high)) / float64(len(low))
}

// Halves are points with the half that each is in.
type Halves struct {
	Points []float32 // dim values each
	Second []bool    // one for each point
}

// ErrTooFew says that [DomainAUC] has too few points.
var ErrTooFew = errors.New("metrics: each half of both sets needs at least two points")

// ridge is added to the diagonal of the covariance, as a fraction of its mean.
const ridge = 1e-2

// DomainAUC says how well a linear classifier separates two sets of points, which bounds from below how far apart their
// distributions are (Ben-David et al. 2010). Fisher's discriminant is fitted on the first halves and its AUC measured
// on the second ones, and the reverse; the mean of both is returned. 0.5 is no difference that it finds, 1 is a perfect
// separation.
func DomainAUC(a, b Halves, dim int) (float64, error) {
	var parts [2][2][]float32 // by set, by half
	for i, set := range []Halves{a, b} {
		n, err := rows(set.Points, dim)
		if err != nil {
			return 0, err
		}
		if n != len(set.Second) {
			return 0, fmt.Errorf("metrics: %d points and the halves of %d", n, len(set.Second))
		}
		for j, second := range set.Second {
			half := 0
			if second {
				half = 1
			}
			parts[i][half] = append(parts[i][half], set.Points[j*dim:(j+1)*dim]...)
		}
		if len(parts[i][0]) < 2*dim || len(parts[i][1]) < 2*dim {
			return 0, ErrTooFew
		}
	}
	total := 0.0
	for half := range 2 {
		w, err := discriminant(parts[0][half], parts[1][half], dim)
		if err != nil {
			return 0, err
		}
		total += AUC(project(parts[0][1-half], w), project(parts[1][1-half], w)) / 2
	}
	return total, nil
}

// discriminant is (S + λI)⁻¹ (mean of a − mean of b), S being the mean of both covariances.
func discriminant(a, b []float32, dim int) ([]float64, error) {
	s := mat.NewSymDense(dim, nil)
	difference := make([]float64, dim)
	for i, points := range [][]float32{a, b} {
		n, sign := len(points)/dim, float64(1-2*i)
		mean := make([]float64, dim)
		for i, v := range points {
			mean[i%dim] += float64(v) / float64(n)
		}
		centred := mat.NewDense(n, dim, nil)
		for i, v := range points {
			centred.Set(i/dim, i%dim, float64(v)-mean[i%dim])
		}
		s.SymRankK(s, 0.5/float64(n-1), centred.T())
		for j, m := range mean {
			difference[j] += sign * m
		}
	}
	small := ridge * mat.Trace(s) / float64(dim)
	if small == 0 {
		small = 1 // points that are all alike: the difference of the means is all there is
	}
	for j := range dim {
		s.SetSym(j, j, s.At(j, j)+small)
	}
	var factor mat.Cholesky
	if !factor.Factorize(s) {
		return nil, errors.New("metrics: the points' covariance is not positive definite")
	}
	var w mat.VecDense
	if err := factor.SolveVecTo(&w, mat.NewVecDense(dim, difference)); err != nil {
		return nil, fmt.Errorf("metrics: the linear discriminant: %w", err)
	}
	return w.RawVector().Data, nil
}

func project(points []float32, w []float64) []float64 {
	out := make([]float64, len(points)/len(w))
	for i, v := range points {
		out[i/len(w)] += float64(v) * w[i%len(w)]
	}
	return out
}
