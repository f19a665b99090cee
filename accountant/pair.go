package accountant

import (
	"fmt"
	"math"
	"sort"

	"popri/internal/numeric"
)

// pair is a pair of distributions P, Q of a real number z that dominates a release: an observer distinguishes P and Q
// at least as well as any two neighbouring data sets. Both mix the same shifted copies of one noise, and the loss ln
// dP/dQ does not fall with z.
type pair struct {
	noise   noise
	shifts  []float64
	p, q    []float64 // weights of the copies
	inverse func(loss float64) float64
	// folded says that the pair is to be symmetrised: losses above 0 as they are, those below mirrored (see fold).
	folded bool
}

// noise is a symmetric distribution around 0.
type noise interface {
	// tail returns P[Z > z] for z ≥ 0 and P[Z ≤ z] for z < 0: the smaller side, without cancellation.
	tail(z float64) float64
	// quantile returns a z ≥ 0 with P[Z > z] at most the given probability.
	quantile(tail float64) float64
}

type normal struct{}

func (normal) tail(z float64) float64 { return 0.5 * math.Erfc(math.Abs(z)/math.Sqrt2) }

func (normal) quantile(tail float64) float64 { return math.Sqrt(2 * math.Max(0, -math.Log(2*tail))) }

// exponential is the Laplace distribution of scale 1.
type exponential struct{}

func (exponential) tail(z float64) float64 { return 0.5 * math.Exp(-math.Abs(z)) }

func (exponential) quantile(tail float64) float64 { return math.Max(0, -math.Log(2*tail)) }

// lattice is the discrete Gaussian distribution, by its cumulative sums.
type lattice struct {
	sigma float64
	above []float64 // above[k] = P[Z > k], from k = 0
}

func newLattice(sigma float64) lattice {
	n := int(40*sigma) + 2
	above := make([]float64, n+1)
	total := discreteTotal(sigma)
	for k := n - 1; k >= 0; k-- {
		x := float64(k + 1)
		above[k] = above[k+1] + math.Exp(-x*x/(2*sigma*sigma))/total
	}
	return lattice{sigma, above}
}

func (l lattice) tail(z float64) float64 {
	k := math.Floor(z)
	if z < 0 {
		k = -k - 1 // P[Z ≤ k] = P[Z ≥ −k] = P[Z > −k − 1]
	}
	if k >= float64(len(l.above)) {
		return 0
	}
	return l.above[int(k)]
}

func (l lattice) quantile(tail float64) float64 {
	return float64(sort.Search(len(l.above), func(k int) bool { return l.above[k] <= tail }))
}

// pairs returns what dominates the event, in units in which the noise has spread 1 (the discrete one: in its own).
func (e Event) pair(r Relation) (pair, error) {
	shift := e.shift(r)
	switch {
	case e.Mechanism == Gumbel:
		return pair{}, fmt.Errorf("%w: no loss distribution is built for selections", ErrNotApplicable)
	case e.continuous() && e.sampled() && r == Replace:
		return replacedPair(e.SamplingRate, e.group(), e.Sigma), nil
	case e.continuous() && e.sampled():
		return sampledPair(e.SamplingRate, int(e.group()), e.Sigma), nil
	case e.continuous() && e.fixed():
		// The advanced joint convexity of Balle, Barthe and Gaboardi 2018 (theorem 10) gives δ'(1 + γ(e^ε − 1)) =
		// γ·δ(ε), which is the curve of a mixture against the unshifted noise where e^ε ≥ 1; below, neighbours being
		// each other's, the mirrored one (Dong, Roth and Su 2022, theorem 9: the operator C_p).
		p := sampledPair(e.hit(), 1, e.Sigma/shift)
		p.folded = true
		return p, nil
	case e.continuous():
		return sampledPair(1, 1, e.Sigma/shift), nil
	case e.fixed(), e.sampled() && (r == Replace || e.group() > 1), e.sampled() && e.Mechanism == DiscreteGaussian:
		return pair{}, fmt.Errorf("%w: no loss distribution is built for %s noise with this sampling under %q",
			ErrNotApplicable, e.Mechanism, r)
	case e.Mechanism == Laplace:
		q := 1.0
		if e.sampled() {
			q = e.SamplingRate
		}
		return laplacePair(q, shift/e.Sigma), nil
	case e.Sigma > mostDiscrete:
		return pair{}, fmt.Errorf("%w: a discrete Gaussian of parameter %g is summed up to %g", ErrNotApplicable,
			e.Sigma, float64(mostDiscrete))
	}
	return discretePair(e.Sigma, shift), nil
}

// sampledPair is Gaussian noise on a sum that each of k clients of a group enters with probability q: the group's
// number is binomial, and that number of shifts of 1/σ against none dominates (Zhu, Dong and Wang 2022, theorem 11; for
// groups, Ganesh 2024: mixtures of Gaussians). The loss is ln Σ_j w_j e^(jμz − j²μ²/2) with μ = 1/σ.
func sampledPair(q float64, k int, sigma float64) pair {
	mu := 1 / sigma
	out := pair{noise: normal{}}
	for j := range k + 1 {
		out.shifts = append(out.shifts, float64(j)*mu)
		out.p = append(out.p, binomial(k, j, q))
		out.q = append(out.q, 0)
	}
	out.q[0] = 1
	if k == 1 {
		out.inverse = func(loss float64) float64 {
			u := math.Expm1(loss) + q // q·e^(μz − μ²/2)
			if q == 1 {
				return loss/mu + mu/2
			}
			if u <= 0 {
				return math.Inf(-1)
			}
			log := math.Log(u / q)
			if loss > 30 { // e^loss may overflow
				log = loss + math.Log1p((q-1)*math.Exp(-loss)) - math.Log(q)
			}
			return log/mu + mu/2
		}
		return out
	}
	logs := make([]float64, k+1)
	for j, w := range out.p {
		logs[j] = math.Log(w) - out.shifts[j]*out.shifts[j]/2
	}
	loss := func(z float64) float64 {
		var sum logSum
		for j, l := range logs {
			sum.add(l + out.shifts[j]*z)
		}
		return sum.log()
	}
	least := logs[0]
	out.inverse = func(target float64) float64 {
		if target <= least {
			return math.Inf(-1)
		}
		return climb(loss, target)
	}
	return out
}

// climb returns the z at which a rising function reaches target, by bisection.
func climb(f func(float64) float64, target float64) float64 {
	low, high := -1.0, 1.0
	for f(low) > target && low > -1e300 {
		low *= 2
	}
	for f(high) < target && high < 1e300 {
		high *= 2
	}
	low, _ = numeric.Bisect(low, high, func(z float64) bool { return f(z) <= target })
	return low
}

func binomial(n, k int, q float64) float64 {
	if q == 1 {
		if k == n {
			return 1
		}
		return 0
	}
	a, _ := math.Lgamma(float64(n) + 1)
	b, _ := math.Lgamma(float64(k) + 1)
	c, _ := math.Lgamma(float64(n-k) + 1)
	return math.Exp(a - b - c + float64(k)*math.Log(q) + float64(n-k)*math.Log1p(-q))
}

// replacedPair is Gaussian noise on a Poisson sample where one client's vector is replaced by the opposite one: the
// farthest apart that neighbours can be. A group counts as one client with the group's norm that is drawn where any of
// it is. With μ = g/σ, 2u the loss and c = e^(−μ²/2), z = (u + asinh((1−q)·sinh(u)/(q·c)))/μ.
func replacedPair(rate, group, sigma float64) pair {
	q := -math.Expm1(group * math.Log1p(-rate))
	mu := group / sigma
	logRatio := math.Log1p(-q) - math.Log(q) + mu*mu/2
	return pair{noise: normal{}, shifts: []float64{0, mu, -mu}, p: []float64{1 - q, q, 0}, q: []float64{1 - q, 0, q},
		inverse: func(loss float64) float64 {
			u := math.Abs(loss / 2)
			var z float64
			if log := logRatio + math.Log(math.Sinh(math.Min(u, 700))); log > 30 || u > 700 {
				z = u + math.Ln2 + logRatio + u - math.Ln2 + math.Log1p(-math.Exp(-2*u)) // asinh(x) = ln 2x for large x
			} else {
				z = u + math.Asinh(math.Exp(log))
			}
			return math.Copysign(z, loss) / mu
		}}
}

// laplacePair is Laplace noise with neighbouring sums shift scales apart, one of them entered with probability q. Below
// 0 and above shift the loss is constant.
func laplacePair(q, shift float64) pair {
	inverseMixed := func(u float64) float64 { // of the release on everybody: its loss 2z − shift between ∓shift
		switch {
		case u < -shift:
			return math.Inf(-1)
		case u >= shift:
			return math.Inf(1)
		}
		return (u + shift) / 2
	}
	return pair{noise: exponential{}, shifts: []float64{0, shift}, p: []float64{1 - q, q}, q: []float64{1, 0},
		inverse: func(loss float64) float64 {
			if q == 1 {
				return inverseMixed(loss)
			}
			v := (math.Expm1(loss) + q) / q // e^(loss of the release on everybody)
			if v <= 0 {
				return math.Inf(-1)
			}
			return inverseMixed(math.Log(v))
		}}
}

// discretePair is discrete Gaussian noise: the loss at the integer z is (2z − s)·s/2σ².
func discretePair(sigma, shift float64) pair {
	return pair{noise: newLattice(sigma), shifts: []float64{0, shift}, p: []float64{0, 1}, q: []float64{1, 0},
		inverse: func(loss float64) float64 {
			z := loss*sigma*sigma/shift + shift/2
			// A point whose loss is the bin's end up to rounding belongs to one bin for all: the one above.
			if r := math.Round(z); math.Abs(z-r) < 1e-9*math.Max(1, math.Abs(z)) {
				return r - 1
			}
			return math.Floor(z)
		}}
}

// span returns losses above which P, and below which Q, has at most the given probability.
func (p pair) span(cut float64) (least, most float64) {
	z := p.noise.quantile(cut)
	low, high := 0.0, 0.0
	for i, s := range p.shifts {
		if p.q[i] > 0 {
			low = math.Min(low, s)
		}
		if p.p[i] > 0 {
			high = math.Max(high, s)
		}
	}
	return p.loss(low - z), p.loss(high + z)
}

// loss returns ln dP/dQ at z, of the densities: the limit from above where it jumps.
func (p pair) loss(z float64) float64 {
	log := func(shift float64) float64 {
		switch p.noise.(type) {
		case exponential:
			return -math.Abs(z - shift)
		case lattice:
			x := (z - shift) / p.noise.(lattice).sigma
			return -x * x / 2
		}
		return -(z - shift) * (z - shift) / 2
	}
	var above, below logSum
	for i, s := range p.shifts {
		above.add(math.Log(p.p[i]) + log(s))
		below.add(math.Log(p.q[i]) + log(s))
	}
	return above.log() - below.log()
}

// masses returns the probabilities of P and Q in the half-open intervals between ascending z, and beyond both ends:
// n+1 numbers each for n points.
func (p pair) masses(points []float64) (mp, mq []float64) {
	n := len(points)
	mp, mq = make([]float64, n+1), make([]float64, n+1)
	for i, s := range p.shifts {
		if p.p[i] == 0 && p.q[i] == 0 {
			continue
		}
		previous, upper := 0.0, false // the tail on the smaller side at the point before: at −∞ nothing is below
		for k := range n + 1 {
			next, nextUpper := 0.0, true // at +∞ nothing is above
			if k < n {
				z := points[k] - s
				nextUpper = z >= 0
				if !math.IsInf(z, 0) {
					next = p.noise.tail(z)
				}
			}
			var mass float64
			switch {
			case upper:
				mass = previous - next
			case nextUpper:
				mass = 1 - previous - next
			default:
				mass = next - previous
			}
			mp[k] += p.p[i] * mass
			mq[k] += p.q[i] * mass
			previous, upper = next, nextUpper
		}
	}
	return mp, mq
}
