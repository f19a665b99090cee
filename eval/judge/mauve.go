package judge

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"popri/internal/numeric"
	"popri/model/embedding"
)

// mauveScale is c in exp(−c·KL), and mauveSteps the number of mixtures, both as the authors' program has them.
const mauveScale, mauveSteps = 5, 25

// mauve is MAUVE (Pillutla et al., NeurIPS 2021): how much of two distributions of texts overlaps, 1 for the same. The
// embeddings of both are reduced to the directions that explain 90 % of their variance and put into clusters, a tenth
// as many as texts of one side; p and q have as many rows.
func mauve(p, q embedding.Matrix, random *rand.Rand) (float64, error) {
	points, err := principal(p, q)
	if err != nil {
		return 0, err
	}
	k := max(2, int(math.Round(float64(min(p.Rows, q.Rows))/10)))
	cluster := numeric.Cluster(points, k, random)
	a, b := make([]float64, k), make([]float64, k)
	for i, c := range cluster {
		if i < p.Rows {
			a[c]++
		} else {
			b[c]++
		}
	}
	floats.Scale(1/floats.Sum(a), a)
	floats.Scale(1/floats.Sum(b), b)
	return frontier(a, b), nil
}

// frontier is the area under the curve of (exp(−c·KL(q‖r)), exp(−c·KL(p‖r))) over mixtures r of two distributions: the
// mean of the areas by both axes.
func frontier(p, q []float64) float64 {
	x, y := []float64{1}, []float64{0} // r = q … r = p, between the extreme points
	mixture := make([]float64, len(p))
	for _, w := range floats.Span(make([]float64, mauveSteps), 1e-6, 1-1e-6) {
		for i := range mixture {
			mixture[i] = w*p[i] + (1-w)*q[i]
		}
		x = append(x, math.Exp(-mauveScale*stat.KullbackLeibler(q, mixture)))
		y = append(y, math.Exp(-mauveScale*stat.KullbackLeibler(p, mixture)))
	}
	x, y = append(x, 0), append(y, 1)
	return (area(x, y) + area(y, x)) / 2
}

// area is the area under a curve through points, by trapezoids in the order of x.
func area(x, y []float64) float64 {
	order := numeric.SortedIndices(len(x), func(i, j int) int { return cmp.Compare(x[i], x[j]) })
	sum := 0.0
	for i := 1; i < len(order); i++ {
		a, b := order[i-1], order[i]
		sum += (x[b] - x[a]) * (y[a] + y[b]) / 2
	}
	return math.Abs(sum)
}

// explained is the fraction of the variance that the kept directions explain.
const explained = 0.9

// principal puts the rows of both matrices, scaled to length 1, on their common principal directions.
func principal(p, q embedding.Matrix) (*mat.Dense, error) {
	n, dim := p.Rows+q.Rows, p.Dim
	all := mat.NewDense(n, dim, nil)
	points := slices.Concat(p.Data, q.Data)
	for i := range n {
		norm := 0.0
		for j, v := range points[i*dim : (i+1)*dim] {
			all.Set(i, j, float64(v))
			norm += float64(v) * float64(v)
		}
		if norm > 0 {
			floats.Scale(1/math.Sqrt(norm), all.RawRowView(i))
		}
	}
	var pc stat.PC
	if !pc.PrincipalComponents(all, nil) {
		return nil, errors.New("the principal components of the embeddings did not converge")
	}
	variances := pc.VarsTo(nil)
	total, sum, keep := floats.Sum(variances), 0.0, 0
	for keep < len(variances) && (sum < explained*total || keep == 0) {
		sum += variances[keep]
		keep++
	}
	var directions, out mat.Dense
	pc.VectorsTo(&directions)
	out.Mul(all, directions.Slice(0, dim, 0, keep))
	return &out, nil
}
