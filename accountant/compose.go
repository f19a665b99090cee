package accountant

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"
)

// release is a loss distribution that is composed with itself count times.
type release struct {
	losses
	count int
}

// total is the sum of independent losses, computed where it decides about δ. The computation uses exponential tilting:
// with K(λ) = ln E[e^(λL)] summed over all releases, each distribution is multiplied by e^(λ·loss), which moves the
// bulk of the sum to the losses around ε that δ depends on. The rounding errors of the Fourier transform and the mass
// outside the window are then small compared with δ, however small δ is, and the window can be narrow.
type total struct {
	step     float64
	lambda   float64
	log      float64   // K(λ)
	first    int       // grid index of w[0]
	w        []float64 // tilted probabilities
	missing  float64   // bound on the tilted probability beyond either end of the window
	infinity float64   // probability of an infinite loss
	slack    float64   // by how much the grid's sum may exceed the true one, except with probability …
	doubt    float64
}

// windowTail is the tilted probability that may be outside the window.
const windowTail = 1e-11

// mostPoints bounds window and grid, and so memory and time.
const mostPoints = 1 << 23

// cumulant returns K(λ) for all releases; +Inf where it overflows.
func cumulant(releases []release, lambda float64) float64 {
	var sum float64
	for _, r := range releases {
		sum += float64(r.count) * r.logMoment(lambda)
	}
	return sum
}

// logMoment returns ln E[e^(λL); L finite].
func (l losses) logMoment(lambda float64) float64 {
	// The largest exponent is at one end of the grid. Powers are formed relative to the loss 0 and may overflow.
	lead := math.Max(lambda*float64(l.first)*l.step, lambda*float64(l.first+len(l.f)-1)*l.step)
	shift := 0.0
	if lead > 650 {
		shift = lead - 650
	}
	ratio, run := l.powers(lambda)
	var sum, block float64
	factor := 0.0
	for i, x := range l.f {
		if i%run == 0 {
			sum += block
			block = 0
			factor = math.Exp(lambda*float64(l.first+i)*l.step - shift)
		}
		block += x * factor
		factor *= ratio
	}
	return math.Log(sum+block) + shift
}

// powers returns e^(λ·step), and over how many points it may be multiplied up before a fresh exponential is needed.
func (l losses) powers(lambda float64) (ratio float64, run int) {
	if math.Abs(lambda)*l.step > 1 {
		return 0, 1
	}
	return math.Exp(lambda * l.step), 64
}

// compose convolves the releases under the tilt lambda ≥ 0. Doubt is the probability that the lower bound may neglect.
func compose(releases []release, lambda, doubt float64) total {
	step := releases[0].step
	t := total{step: step, lambda: lambda, log: cumulant(releases, lambda), doubt: doubt}
	finite := 0.0
	count := 0
	for _, r := range releases {
		finite += float64(r.count) * math.Log1p(-r.infinity)
		t.doubt += float64(r.count) * r.bottom
		count += r.count
	}
	t.infinity = -math.Expm1(finite)
	// A loss l between grid points is raised by a random amount of mean at most step²/8, within an interval of length
	// step; by Hoeffding's inequality their sum exceeds the sum of the means by more than this with probability doubt.
	n := float64(count)
	t.slack = n*step*step/8 + step*math.Sqrt(n*math.Log(1/doubt)/2)

	low, high := window(releases, lambda, t.log)
	t.first = int(math.Floor(low / step))
	size := int(math.Ceil(high/step)) - t.first + 1
	size = fastSize(max(size, 16))
	t.w = make([]float64, size)
	t.missing = 2 * windowTail

	free, _ := transforms.LoadOrStore(size, &sync.Pool{New: func() any { return fourier.NewFFT(size) }})
	plan := free.(*sync.Pool).Get().(*fourier.FFT)
	defer free.(*sync.Pool).Put(plan)
	product := slices.Repeat([]complex128{1}, size/2+1)
	var coefficients []complex128
	for _, r := range releases {
		clear(t.w)
		log := r.logMoment(lambda)
		ratio, run := r.powers(lambda)
		at := (r.first%size + size) % size
		factor := 0.0
		for i, x := range r.f {
			if i%run == 0 {
				factor = math.Exp(lambda*float64(r.first+i)*step - log)
			}
			t.w[at] += x * factor
			factor *= ratio
			if at++; at == size {
				at = 0
			}
		}
		coefficients = plan.Coefficients(coefficients, t.w)
		for i, c := range coefficients {
			product[i] *= power(c, r.count)
		}
	}
	all := plan.Sequence(nil, product)
	// Index k of the sum is at k modulo size: turn the window to its start.
	from := (t.first%size + size) % size
	scale := 1 / float64(size)
	for i := range t.w {
		t.w[i] = max(0, all[from]*scale)
		if from++; from == size {
			from = 0
		}
	}
	return t
}

// window returns the losses that bound the tilted sum, except for windowTail at each end, by Chernoff's bound.
func window(releases []release, lambda, log float64) (low, high float64) {
	const nudge = 1e-4
	// The variance under the tilt gives the scale of the search for the best exponent.
	var mean, variance float64
	for _, r := range releases {
		m, v := r.tiltedMoments(lambda)
		mean += float64(r.count) * m
		variance += float64(r.count) * v
	}
	need := -math.Log(windowTail)
	scale := math.Sqrt(2 * need / math.Max(variance, nudge*nudge*releases[0].step*releases[0].step))
	low, high = math.Inf(-1), math.Inf(1)
	tries := []float64{scale / 16, scale / 8, scale / 4, scale / 2, scale, 2 * scale, 4 * scale}
	for _, s := range tries {
		high = math.Min(high, (cumulant(releases, lambda+s)-log+need)/s)
	}
	if lambda > 0 { // where the tilt presses everything to one end of the grid, a smaller tilt gives the scale
		tries = append(tries, lambda/2, lambda)
	}
	for _, s := range tries {
		low = math.Max(low, -(cumulant(releases, lambda-s)-log+need)/s)
	}
	// The sum cannot leave the grids.
	var least, most float64
	for _, r := range releases {
		least += float64(r.count) * float64(r.first) * r.step
		most += float64(r.count) * float64(r.first+len(r.f)-1) * r.step
	}
	return math.Max(low, least), math.Min(high, most)
}

// tiltedMoments returns mean and variance of one loss under the tilt.
func (l losses) tiltedMoments(lambda float64) (mean, variance float64) {
	log := l.logMoment(lambda)
	ratio, run := l.powers(lambda)
	var factor, sum, squares float64
	for i, x := range l.f {
		at := float64(l.first+i) * l.step
		if i%run == 0 {
			factor = math.Exp(lambda*at - log)
		}
		w := x * factor
		sum += w * at
		squares += w * at * at
		factor *= ratio
	}
	return sum, math.Max(0, squares-sum*sum)
}

func power(c complex128, n int) complex128 {
	result := complex(1, 0)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			result *= c
		}
		c *= c
	}
	return result
}

// fastSize returns the next number of the form 2^a, 3·2^a or 5·2^a.
func fastSize(n int) int {
	best := 1
	for best < n {
		best *= 2
	}
	for _, odd := range []int{3, 5} {
		m := odd
		for m < n {
			m *= 2
		}
		best = min(best, m)
	}
	return best
}

// transforms has pools of tables of sines by size: sizes occur again, as in calibration.
var transforms sync.Map

// delta returns bounds on δ(ε) from above and below.
func (t total) delta(epsilon float64) (upper, lower float64) {
	upper = math.Min(1, t.finite(epsilon)+t.infinity+t.beyond())
	lower = t.finite(epsilon+t.slack) - t.doubt - 2*t.missing*math.Exp(t.log-t.lambda*(epsilon+t.slack))
	return upper, math.Max(0, lower)
}

// beyond bounds the probability of losses above the window.
func (t total) beyond() float64 {
	return t.missing * math.Exp(t.log-t.lambda*float64(t.first+len(t.w)-1)*t.step)
}

// finite returns E[(1 − e^(ε − L))₊] over the window.
func (t total) finite(epsilon float64) float64 {
	var sum float64
	start := max(0, int(math.Floor(epsilon/t.step))+1-t.first)
	for i := start; i < len(t.w); i++ {
		over := float64(t.first+i)*t.step - epsilon
		if x := t.w[i]; x > 0 && over > 0 {
			sum += x * math.Exp(-t.lambda*over) * -math.Expm1(-over)
		}
	}
	if sum == 0 {
		return 0
	}
	return sum * math.Exp(t.log-t.lambda*epsilon)
}

// epsilon returns bounds on the least ε with δ(ε) ≤ delta, from above and below, and whether the window holds it.
func (t total) epsilon(delta float64) (upper, lower float64, found bool) {
	upper, found = t.solve(delta - t.infinity - t.beyond())
	if !found || math.IsInf(upper, 1) {
		return upper, 0, found // of an ε beyond all losses it is only known that it is large
	}
	allowed := delta + t.doubt + 2*t.missing*math.Exp(t.log-t.lambda*upper)
	lower, _ = t.solve(allowed)
	return upper, math.Max(0, lower-t.slack), true
}

// solve returns the ε ≥ 0 at which the finite part of δ is target. The finite part is Σ_{l>ε} p(l) − e^ε·Σ_{l>ε} q(l).
// Going down from the top of the window, the first point at which it exceeds the target gives ε in closed form.
func (t total) solve(target float64) (float64, bool) {
	if target <= 0 {
		return math.Inf(1), true
	}
	// The sums are relative to e^(K − λ·r), where r is a loss in the bulk of the tilted sum.
	last := len(t.w) - 1
	r := float64(t.first)*t.step + t.bulk()
	goal := target * math.Exp(t.lambda*r-t.log)
	var p, q float64 // Σ w·e^(−λ(l−r)) and the same with another e^(−(l−r))
	ratio, run := losses{step: t.step}.powers(t.lambda)
	rise := math.Exp(t.step)
	var tilt, away float64 // e^(−λ(l−r)), e^(l−r)
	for i, n := last, 0; i >= 0; i, n = i-1, n+1 {
		l := float64(t.first+i) * t.step
		if n%run == 0 {
			tilt, away = math.Exp(-t.lambda*(l-r)), math.Exp(l-r)
		}
		if p-q*away > goal && p > 0 {
			return t.root(p, q, goal, r), true
		}
		if l <= 0 {
			break
		}
		x := t.w[i] * tilt
		p += x
		q += x / away
		tilt *= ratio
		away /= rise
	}
	if float64(t.first)*t.step <= 0 { // the window reaches down to ε = 0
		if p-q*math.Exp(-r) <= goal {
			return 0, true
		}
		return t.root(p, q, goal, r), true
	}
	return float64(t.first) * t.step, false
}

// bulk returns how far the mean of the tilted sum is above the window's start.
func (t total) bulk() float64 {
	var sum, mean float64
	for i, x := range t.w {
		sum += x
		mean += x * float64(i)
	}
	return mean / math.Max(sum, 1e-300) * t.step
}

// root solves p − q·e^(ε−r) = goal, and rounds up.
func (t total) root(p, q, goal, r float64) float64 {
	e := r + math.Log((p-goal)/q)
	return math.Max(0, e+1e-13*math.Abs(e))
}
