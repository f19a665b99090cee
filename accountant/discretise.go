package accountant

import "math"

// losses is the distribution of a privacy loss on a grid: probability f[i] at (first+i)·step, and infinity.
type losses struct {
	step     float64
	first    int
	f        []float64
	infinity float64 // probability of an infinite loss
	bottom   float64 // of which losses below the grid were raised to its first point
}

// largestLoss bounds the grid: e^loss must be a float64.
const largestLoss = 700

// discretise puts the loss of a pair on a grid by connecting the dots (Doroshenko et al. 2022): the probability between
// two points goes to both of them such that P's and Q's masses stay as they are. The curve δ(e^ε) of the result is the
// polygon through the true curve's points on the grid, and as that is convex, nowhere below it: pessimistic, with
// errors of the order step². The second result is the loss of Q against P, which is the same atoms seen from the other
// side: e^(−loss)·f at −loss.
func (p pair) discretise(step, cut float64) (forward, backward losses) {
	least, most := p.span(cut)
	least, most = math.Max(least, -largestLoss), math.Min(most, largestLoss)
	first, last := int(math.Floor(least/step)), int(math.Ceil(most/step))
	if p.folded {
		first, last = min(first, -1), max(last, 1)
	}
	n := last - first + 1
	points := make([]float64, n)
	for i := range points {
		points[i] = p.inverse(float64(first+i) * step)
	}
	mp, mq := p.masses(points)

	f := make([]float64, n)
	shrink := -math.Expm1(-step)
	scale := math.Exp(float64(first) * step)
	for i := range n - 1 {
		if i%64 == 0 {
			scale = math.Exp(float64(first+i) * step)
		} else {
			scale /= 1 - shrink
		}
		mass := mp[i+1]
		high := math.Max(0, math.Min(mass, (mass-scale*mq[i+1])/shrink))
		f[i] += mass - high
		f[i+1] += high
	}
	// Below the grid: between −∞, where P has nothing, and the first point. Above: between the last point and ∞.
	f[0] += mp[0]
	top := math.Min(mp[n], mq[n]*math.Exp(float64(last)*step))
	f[n-1] += top
	forward = losses{step, first, f, mp[n] - top, mp[0]}
	backward = losses{step: step, first: -last, f: make([]float64, n),
		infinity: math.Max(0, mq[0]-mp[0]*math.Exp(-float64(first)*step)), bottom: mq[n]}
	for i, x := range f {
		if x > 0 {
			backward.f[n-1-i] = x * math.Exp(-float64(first+i)*step)
		}
	}
	if p.folded {
		forward = forward.fold()
		return forward, forward
	}
	return forward, backward
}

// fold makes the loss of a pair whose order does not matter: losses above 0 stay, losses below 0 are mirrored, and the
// rest of the mass is at 0. Its curve is everywhere the larger one of the pair's and its mirror image's: each of these
// two is larger on one side of ε = 0.
func (l losses) fold() losses {
	last := l.first + len(l.f) - 1
	out := losses{step: l.step, first: -last, f: make([]float64, 2*last+1), infinity: l.infinity, bottom: l.infinity}
	rest := 1 - l.infinity
	for k := 1; k <= last; k++ {
		x := l.f[k-l.first]
		mirrored := x * math.Exp(-float64(k)*l.step)
		out.f[last+k], out.f[last-k] = x, mirrored
		rest -= x + mirrored
	}
	out.f[last] = math.Max(0, rest)
	return out
}
