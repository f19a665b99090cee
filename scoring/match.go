package scoring

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"popri/internal/numeric"
	"popri/internal/parallel"
	"popri/model/embedding"
)

// Weighting is weights on texts, see [Match].
type Weighting struct {
	Weights  []float64 // at least 0, of sum 1
	Distance float64   // of the weighted mean from the wanted one
	Radius   float64   // the distance that was allowed
	// Effective is 1/Σ b²: the number of texts of equal weight that carry as much information.
	Effective float64
}

// Match returns the weights nearest to prior, in relative entropy, with which the weighted mean of texts (one a row)
// is within radius of target:
//
//	b_j ∝ prior_j·exp⟨λ, x_j⟩        λ minimises  ln Σ_j prior_j·exp⟨λ, x_j⟩ − ⟨λ, target⟩ + radius·‖λ‖₂
//
// which is the dual of maximum-entropy density estimation with an L2 ball (Dudík, Phillips and Schapire, JMLR 8, 2007,
// section 4). prior has values of at least 0; nil is all equal. A released mean carries noise, and matching it more
// closely than its noise would fit the noise. A radius that no weighting of at least floor effective texts reaches is
// enlarged until one does. If target is a release, the weights are post-processing.
func Match(texts embedding.Matrix, prior, target []float64, radius, floor float64) (Weighting, error) {
	switch {
	case texts.Rows == 0 || len(target) != texts.Dim:
		return Weighting{}, fmt.Errorf("scoring: %d texts of %d values for a mean of %d", texts.Rows, texts.Dim, len(target))
	case !(radius > 0) || math.IsInf(radius, 1):
		return Weighting{}, fmt.Errorf("scoring: radius is %g, want a number above 0", radius)
	case !(floor >= 0) || floor > float64(texts.Rows):
		return Weighting{}, fmt.Errorf("scoring: %g effective texts of %d", floor, texts.Rows)
	}
	if i := numeric.NotFinite(target); i >= 0 {
		return Weighting{}, fmt.Errorf("scoring: value %d of the mean is %g", i, target[i])
	}
	log, err := logPrior(prior, texts.Rows)
	if err != nil {
		return Weighting{}, err
	}
	unmatched, err := Weigh(texts, prior, target)
	if err != nil {
		return Weighting{}, err
	}
	best, floor := unmatched, min(floor, unmatched.Effective)
	best.Radius = max(radius, unmatched.Distance)
	start := make([]float64, texts.Dim)
	// Smaller and smaller radii, each from the λ of the one before: without a start nearby, a small radius takes many
	// times as many steps. Where one is out of reach, the last steps halve the logarithm of the radius in between.
	out := 0.0
	for halved := 0; best.Radius > radius && halved < matchHalvings; {
		next := max(radius, best.Radius/matchShrink)
		if out > 0 {
			next = math.Sqrt(out * best.Radius)
			halved++
		}
		w, at, err := match(texts, log, target, next, start)
		if err != nil {
			return Weighting{}, err
		}
		if w.Distance <= next*(1+matchSlack) && w.Effective >= floor*(1-1e-9) {
			best, start = w, at
		} else {
			out = next
		}
	}
	return best, nil
}

// Weigh returns prior weights, scaled to sum 1, with the distance of the weighted mean from target.
func Weigh(texts embedding.Matrix, prior, target []float64) (Weighting, error) {
	log, err := logPrior(prior, texts.Rows)
	if err != nil {
		return Weighting{}, err
	}
	d := dual{texts: texts, prior: log, target: target}
	d.at(make([]float64, texts.Dim), nil)
	return d.weighting(), nil
}

// logPrior returns the logarithms of prior weights, scaled to sum 1; nil is all equal.
func logPrior(prior []float64, n int) ([]float64, error) {
	if prior == nil {
		prior = slices.Repeat([]float64{1}, n)
	}
	if len(prior) != n {
		return nil, fmt.Errorf("scoring: %d prior weights for %d texts", len(prior), n)
	}
	sum := floats.Sum(prior)
	log := make([]float64, n)
	for i, v := range prior {
		if !(v >= 0) || !(sum > 0) || math.IsInf(sum, 1) {
			return nil, fmt.Errorf("scoring: prior weight %d is %g, of a sum of %g", i, v, sum)
		}
		log[i] = math.Log(v / sum)
	}
	return log, nil
}

// match solves the dual for one radius, from start on.
func match(texts embedding.Matrix, prior, target []float64, radius float64, start []float64) (Weighting, []float64, error) {
	d := dual{texts: texts, prior: prior, target: target, radius: radius}
	problem := optimize.Problem{Func: func(x []float64) float64 { return d.at(x, nil) },
		Grad: func(grad, x []float64) { d.at(x, grad) }}
	settings := &optimize.Settings{GradientThreshold: 1e-4 * radius, MajorIterations: mostMatchSteps}
	result, err := optimize.Minimize(problem, start, settings, &optimize.LBFGS{})
	if result == nil {
		return Weighting{}, nil, fmt.Errorf("scoring: weights: %w", err)
	}
	d.at(result.X, make([]float64, texts.Dim))
	return d.weighting(), result.X, nil
}

const (
	mostMatchSteps = 500
	// matchSlack is by which fraction of the radius the distance may exceed it when the minimisation ends.
	matchSlack = 0.05
	// matchShrink is the ratio of one radius to the next, and matchHalvings the number of steps that look for the
	// smallest one within reach.
	matchShrink, matchHalvings = 1.5, 4
	// smoothing keeps the norm of λ differentiable at 0.
	smoothing = 1e-6
)

// dual is the function that λ minimises. It keeps the results of the last point.
type dual struct {
	texts  embedding.Matrix
	prior  []float64 // logarithms
	target []float64
	radius float64

	last     []float64
	value    float64
	gradient []float64
	weights  []float64
	distance float64
}

func (d *dual) weighting() Weighting {
	return Weighting{Weights: d.weights, Radius: d.radius, Distance: d.distance,
		Effective: 1 / floats.Dot(d.weights, d.weights)}
}

// at returns the value at lambda and, in grad if it is not nil, the gradient.
func (d *dual) at(lambda, grad []float64) float64 {
	if d.last == nil || !floats.Equal(d.last, lambda) {
		d.compute(lambda)
	}
	copy(grad, d.gradient)
	return d.value
}

func (d *dual) compute(lambda []float64) {
	n, dim := d.texts.Rows, d.texts.Dim
	if d.weights == nil {
		d.weights, d.gradient, d.last = make([]float64, n), make([]float64, dim), make([]float64, dim)
	}
	copy(d.last, lambda)
	parallel.Ranges(n, 512, func(from, to int) {
		for i := from; i < to; i++ {
			s := d.prior[i]
			for j, x := range d.texts.Row(i) {
				s += lambda[j] * float64(x)
			}
			d.weights[i] = s
		}
	})
	top := floats.Max(d.weights)
	sum := 0.0
	for i, s := range d.weights {
		d.weights[i] = math.Exp(s - top)
		sum += d.weights[i]
	}
	floats.Scale(1/sum, d.weights)
	mean := weightedSum(d.texts.Data, d.texts.Dim, d.weights)
	norm := math.Sqrt(floats.Dot(lambda, lambda) + smoothing*smoothing)
	d.value = top + math.Log(sum) - floats.Dot(lambda, d.target) + d.radius*norm
	distance := 0.0
	for j := range mean {
		off := mean[j] - d.target[j]
		distance += off * off
		d.gradient[j] = off + d.radius*lambda[j]/norm
	}
	d.distance = math.Sqrt(distance)
}
