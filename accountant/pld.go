package accountant

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"popri/internal/numeric"
)

// PLD follows the distribution of the privacy loss itself, L = ln P(x)/Q(x) for an outcome x of P, for a pair P, Q that
// is the hardest case. The losses of releases add up, so their distributions are convolved, on a grid by a fast Fourier
// transform, and
//
//	δ(ε) = E[(1 − e^(ε−L))₊]
//
// which is the tightest statement there is, but for the grid. [PLD.EpsilonBounds] says how much that may be. The zero
// value is ready.
type PLD struct {
	// Relation is which data sets are neighbours; the zero value is [AddOrRemove], which has the bounds of [ZeroOut].
	Relation Relation
	// Accuracy is the error of ε from the grid to aim at, relative to ε (or to 0.01 where ε is below); 0 means 1e-5.
	// Less takes longer.
	Accuracy float64
	// direction compares with libraries that look at one of two neighbours, under [ZeroOut] and [AddOrRemove]: "remove"
	// for the losses of the data set with the client's texts against the one without, "add" the other way round.
	direction string
}

// Name implements [Accountant].
func (PLD) Name() string { return "pld" }

// Epsilon implements [Accountant]: the bound from above. Losses too large for the grid, of noise that protects nobody,
// are left to [RDP].
func (p PLD) Epsilon(events []Event, delta float64) (float64, error) {
	_, upper, err := p.EpsilonBounds(events, delta)
	if err == nil && math.IsInf(upper, 1) && !silent(events) {
		if e, err := (RDP{Relation: p.Relation}).Epsilon(events, delta); err == nil {
			return e, nil
		}
	}
	return upper, err
}

// Delta implements [Accountant]: the bound from above, of [RDP] where losses are too large for the grid.
func (p PLD) Delta(events []Event, epsilon float64) (float64, error) {
	_, upper, err := p.DeltaBounds(events, epsilon)
	if err == nil && upper == 1 && !silent(events) {
		if d, err := (RDP{Relation: p.Relation}).Delta(events, epsilon); err == nil {
			return d, nil
		}
	}
	return upper, err
}

// EpsilonBounds returns a lower and an upper bound of the ε of the dominating pair of distributions. No analysis of the
// mechanism can prove an ε below the pair's.
func (p PLD) EpsilonBounds(events []Event, delta float64) (lower, upper float64, err error) {
	if err := validDelta(delta); err != nil {
		return 0, 0, err
	}
	r, exact, events, err := p.split(events)
	if err != nil {
		return 0, 0, err
	}
	if len(events) == 0 {
		e := gaussianEpsilon(exact, delta)
		return e, e, nil
	}
	if silent(events) || math.IsInf(exact, 1) {
		return math.Inf(1), math.Inf(1), nil
	}
	guess := p.guess(r, exact, events)
	order, rough := guess.forEpsilon(delta)
	forward, backward, err := p.losses(r, exact, events, order, rough, delta, guess.spread())
	if err != nil {
		return 0, 0, err
	}
	for _, releases := range p.directions(forward, backward) {
		l, u := solveEpsilon(releases, delta)
		lower, upper = math.Max(lower, l), math.Max(upper, u)
	}
	return lower, upper, nil
}

// DeltaBounds returns a lower and an upper bound of the least δ.
func (p PLD) DeltaBounds(events []Event, epsilon float64) (lower, upper float64, err error) {
	if err := validEpsilon(epsilon); err != nil {
		return 0, 0, err
	}
	r, exact, events, err := p.split(events)
	if err != nil {
		return 0, 0, err
	}
	if len(events) == 0 {
		d := math.Exp(gaussianLogDelta(exact, epsilon))
		return d, d, nil
	}
	if math.IsInf(epsilon, 1) {
		return 0, 0, nil
	}
	if silent(events) || math.IsInf(exact, 1) {
		return 1, 1, nil
	}
	guess := p.guess(r, exact, events)
	order, rough := guess.forDelta(epsilon)
	rough = cmp.Or(rough, 1e-300)
	forward, backward, err := p.losses(r, exact, events, order, epsilon, rough*1e-4, guess.spread())
	if err != nil {
		return 0, 0, err
	}
	for _, releases := range p.directions(forward, backward) {
		t := compose(releases, bestTilt(releases, epsilon), rough*1e-12)
		u, l := t.delta(epsilon)
		lower, upper = math.Max(lower, l), math.Max(upper, u)
	}
	return lower, upper, nil
}

// split composes all Gaussian releases on everybody into one, exactly, as μ, and returns the rest.
func (p PLD) split(events []Event) (r Relation, mu float64, rest []Event, err error) {
	r, events, err = checked(p.Relation, events)
	if err != nil {
		return r, 0, nil, err
	}
	var plain []Event
	for _, e := range events {
		switch {
		case math.IsInf(e.Sigma, 1):
		case e.plain():
			plain = append(plain, e)
		default:
			rest = append(rest, e)
		}
	}
	mu, err = totalMu(plain, r)
	return r, mu, rest, err
}

// silent reports whether some release has no noise. Where clients are sampled, δ would be finite, but ε is not
// meaningful, and libraries agree to answer +Inf.
func silent(events []Event) bool {
	return slices.ContainsFunc(events, func(e Event) bool { return e.Sigma == 0 && e.Count > 0 })
}

func (p PLD) directions(forward, backward []release) [][]release {
	switch {
	case backward == nil || p.direction == "remove":
		return [][]release{forward}
	case p.direction == "add":
		return [][]release{backward}
	}
	return [][]release{forward, backward}
}

// losses puts the loss of every event on one grid, fine enough for the accuracy at the given order, ε and δ, and no
// finer than memory allows for a sum of that spread. backward is nil where it is the same as forward.
func (p PLD) losses(r Relation, mu float64, events []Event,
	order, epsilon, delta, spread float64) (forward, backward []release, err error) {
	counts := numeric.Map(events, func(e Event) int { return e.Count })
	if mu > 0 {
		counts = append(counts, 1)
	}
	n := floats.Sum(numeric.Convert[float64](counts))
	accuracy := cmp.Or(p.Accuracy, 1e-5)
	// The grid adds at most step²/4 to the variance of each loss, which moves ε by n·(λ+1)·step²/8 with λ = order − 1.
	// The lower bound lags by about step·√(10n); the step aims at a lag of a thousandth of ε. With few losses the
	// second condition decides. With many, the first one does, and the distribution of the sum is so smooth that a step
	// of some thousandths is fine enough.
	aim := math.Max(math.Min(epsilon, 1e3), 0.01)
	step := math.Sqrt(8 * accuracy * aim / (n * order))
	step = math.Min(step, 100*accuracy*math.Max(aim, math.Min(5, 0.1*math.Cbrt(n)))/math.Sqrt(10*n))
	cut := math.Max(1e-7*delta/n, 1e-300)

	pairs, err := numeric.TryMap(events, func(e Event) (pair, error) { return e.pair(r) })
	if err != nil {
		return nil, nil, err
	}
	if mu > 0 {
		pairs = append(pairs, sampledPair(1, 1, 1/mu))
	}
	width := 0.0
	for _, made := range pairs {
		least, most := made.span(cut)
		width = math.Max(width, math.Min(most, largestLoss)-math.Max(least, -largestLoss))
	}
	step = math.Max(step, width/mostPoints*4)
	if spread > 0 && !math.IsInf(spread, 1) { // the window is some standard deviations of the sum wide
		step = math.Max(step, 40*spread/mostPoints)
	}

	mirrored := true
	for i, made := range pairs {
		f, b := made.discretise(step, cut)
		forward, backward = append(forward, release{f, counts[i]}), append(backward, release{b, counts[i]})
		mirrored = mirrored && (made.folded || r == Replace)
	}
	if mirrored {
		backward = nil
	}
	return forward, backward, nil
}

// solveEpsilon finds the tilt at which the Rényi bound on ε is least, which centres the window at that ε. Where the
// true ε is below the window, it widens the window towards 0.
func solveEpsilon(releases []release, delta float64) (lower, upper float64) {
	lambda := leastOver(releases[0].step, func(lambda float64) float64 {
		return (cumulant(releases, lambda) - math.Log(delta) - (1+lambda)*math.Log1p(lambda) + lambda*math.Log(lambda)) / lambda
	})
	for {
		t := compose(releases, lambda, delta*1e-4)
		upper, lower, found := t.epsilon(delta)
		if found {
			return lower, upper
		}
		if lambda == 0 {
			return 0, math.Max(0, upper)
		}
		if lambda /= 2; lambda < 1e-3 {
			lambda = 0
		}
	}
}

// bestTilt minimises K(λ) − λε, which puts the mean of the tilted sum at ε.
func bestTilt(releases []release, epsilon float64) float64 {
	lambda := leastOver(releases[0].step, func(lambda float64) float64 { return cumulant(releases, lambda) - lambda*epsilon })
	if lambda < 1e-3 {
		return 0
	}
	return lambda
}

// leastOver returns about where a function of λ > 0 with one valley is least, by golden sections in ln λ. Tilts above
// 1/step are not searched: they would only separate neighbouring points of the grid.
func leastOver(step float64, f func(lambda float64) float64) float64 {
	value := func(x float64) float64 {
		v := f(math.Exp(x))
		if math.IsNaN(v) {
			return math.Inf(1)
		}
		return v
	}
	const ratio = 0.6180339887498949
	low, high := math.Log(1e-4), math.Log(math.Max(1, 1/step))
	a, b := high-ratio*(high-low), low+ratio*(high-low)
	fa, fb := value(a), value(b)
	for high-low > 0.02 {
		if fa < fb || math.IsInf(fb, 1) { // too large a λ overflows
			high, b, fb = b, a, fa
			a = high - ratio*(high-low)
			fa = value(a)
		} else {
			low, a, fa = a, b, fb
			b = low + ratio*(high-low)
			fb = value(b)
		}
	}
	return math.Exp((low + high) / 2)
}

// guess is a rough Rényi curve at whole orders, by which grids are chosen. It need not be a bound.
type guess struct{ orders, divergences []float64 }

func (p PLD) guess(r Relation, mu float64, events []Event) guess {
	var g guess
	for a := 2.0; a <= largestSampledOrder; a = math.Ceil(a * 1.3) {
		g.orders = append(g.orders, a)
		sum := a * mu * mu / 2
		for _, e := range events {
			sigma := e.Sigma / e.shift(r)
			n := float64(e.Count)
			q := e.hit()
			switch {
			case e.Mechanism == Laplace && q == 1:
				sum += n * laplaceDivergence(1/sigma, a)
			case e.Mechanism == Laplace:
				sum += n * math.Min(q*laplaceDivergence(1/sigma, a), 2*q*q*a*math.Expm1(1/sigma)*math.Expm1(1/sigma))
			case q < 1:
				sum += n * sampledDivergence(q, sigma, a)
			default:
				sum += n * a / (2 * sigma * sigma)
			}
		}
		g.divergences = append(g.divergences, sum)
	}
	return g
}

// spread is about the standard deviation of the sum of all losses. Its square is the μ² of a Gaussian release with the
// same divergence of order 2.
func (g guess) spread() float64 { return math.Sqrt(g.divergences[0]) }

func (g guess) forEpsilon(delta float64) (order, epsilon float64) {
	order, epsilon = g.orders[0], math.Inf(1)
	for i, a := range g.orders {
		if e := g.divergences[i] + math.Log1p(-1/a) - math.Log(delta*a)/(a-1); e < epsilon {
			order, epsilon = a, e
		}
	}
	return order, math.Max(0, epsilon)
}

func (g guess) forDelta(epsilon float64) (order, delta float64) {
	order, best := g.orders[0], 0.0
	for i, a := range g.orders {
		if d := (a-1)*(g.divergences[i]-epsilon+math.Log1p(-1/a)) - math.Log(a); d < best {
			order, best = a, d
		}
	}
	return order, math.Exp(best)
}
