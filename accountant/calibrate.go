package accountant

import (
	"errors"
	"fmt"
	"math"
	"sort"
)

// Plan says what to calibrate: releases of one kind, after releases that were already made.
type Plan struct {
	// Before are releases that have spent some of the budget already.
	Before []Event
	// Each describes every further release; the field that is computed is ignored.
	Each Event
}

func (p Plan) with(sigma float64, count int) []Event {
	e := p.Each
	e.Sigma, e.Count = sigma, count
	return append(append([]Event(nil), p.Before...), e)
}

// sigmaTolerance is the relative distance to the least noise at which calibration stops.
const sigmaTolerance = 1e-9

// Sigma returns the least noise multiplier with which Each.Count releases stay within (ε, δ) by the accountant. The
// result is conservative: its Epsilon is at most epsilon. It exceeds the least by a relative 1e-9 at most, or by so
// little that ε changes by less than 1e-9. Sigma returns 0 where no noise is needed (no releases, or ε = +Inf).
func (p Plan) Sigma(a Accountant, epsilon, delta float64) (float64, error) {
	probe := p.Each
	probe.Sigma = 1
	if err := errors.Join(validEpsilon(epsilon), validDelta(delta), probe.validate()); err != nil {
		return 0, err
	}
	if p.Each.Count == 0 || math.IsInf(epsilon, 1) {
		return 0, nil
	}
	spent, err := a.Epsilon(p.Before, delta)
	if err != nil {
		return 0, err
	}
	if spent > epsilon {
		return 0, fmt.Errorf("accountant: %s: epsilon %g is spent already, more than %g", a.Name(), spent, epsilon)
	}
	spends := func(sigma float64) (float64, error) { return a.Epsilon(p.with(sigma, p.Each.Count), delta) }

	// ok suffices and short does not; the first sigma that is tried decides which of the two moves first.
	short, ok := 0.0, math.Sqrt(float64(p.Each.Count))*probe.hit()
	over, under := math.Inf(1), 0.0 // ε at short and at ok
	for {
		e, err := spends(ok)
		if err != nil {
			return 0, err
		}
		if e <= epsilon {
			under = e
			break
		}
		if short, over, ok = ok, e, 2*ok; ok > 1e150 {
			return 0, fmt.Errorf("accountant: %s shows epsilon %g at delta %g for no noise", a.Name(), epsilon, delta)
		}
	}
	for short == 0 {
		e, err := spends(ok / 2)
		if err != nil {
			return 0, err
		}
		if e > epsilon {
			short, over = ok/2, e
		} else if ok, under = ok/2, e; ok < 1e-150 {
			return ok, nil
		}
	}
	// Every third step halves the interval. The other steps interpolate ln ε linearly in ln σ, from both ends towards
	// the root.
	for step := 0; ok-short > sigmaTolerance*ok && !(under >= epsilon*(1-1e-10)); step++ {
		middle := short + (ok-short)/2
		if step%3 != 2 && under > 0 && !math.IsInf(over, 1) {
			t := math.Log(over/epsilon) / math.Log(over/under)
			guess := short * math.Pow(ok/short, t)
			nudge := 0.02 * (ok - short) * math.Min(1, math.Pow(0.2, float64(step)/3))
			if step%3 == 0 {
				guess += nudge
			} else {
				guess -= nudge
			}
			if guess > short && guess < ok {
				middle = guess
			}
		}
		e, err := spends(middle)
		if err != nil {
			return 0, err
		}
		if e <= epsilon {
			ok, under = middle, e
		} else {
			short, over = middle, e
		}
	}
	return ok, nil
}

// Rounds returns how many releases with noise multiplier Each.Sigma stay within (ε, δ), at most limit.
func (p Plan) Rounds(a Accountant, epsilon, delta float64, limit int) (int, error) {
	e := p.Each
	e.Count = limit
	if err := errors.Join(validEpsilon(epsilon), validDelta(delta), e.validate()); err != nil {
		return 0, err
	}
	var failed error
	fits := func(n int) bool {
		spent, err := a.Epsilon(p.with(p.Each.Sigma, n), delta)
		failed = err
		return err == nil && spent <= epsilon
	}
	low, high := 0, 1 // low releases are within, high are not or are one above the limit
	for high <= limit && fits(high) {
		low, high = high, 2*high
	}
	more := sort.Search(min(high, limit+1)-low-1, func(n int) bool { return failed != nil || !fits(low+n+1) })
	return low + more, failed
}
