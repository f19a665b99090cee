package accountant

import (
	"errors"
	"fmt"
	"math"
)

// Event is a number of equal releases, each a Gaussian-noised sum over clients.
type Event struct {
	// Sigma is the noise multiplier: standard deviation of the noise / L2 sensitivity. 0 means no noise: no privacy.
	Sigma float64
	// SamplingRate is the chance with which each client takes part, independently (Poisson sampling). 0 and 1 mean
	// that all take part.
	SamplingRate float64
	// Count is the number of releases. 0 means none.
	Count int
}

// Relation is which data sets count as neighbours.
type Relation string

// AddOrRemove: one client more or less.
const AddOrRemove Relation = "add_or_remove"

// ErrNotApplicable marks an accountant that knows no bound for the events asked about.
var ErrNotApplicable = errors.New("accountant: not applicable")

// Accountant bounds the privacy of a sequence of events, each of which may have been chosen after seeing the earlier
// ones' outcomes as long as its Sigma was fixed beforehand.
type Accountant interface {
	// Name is how reports call it: "exact", "rdp".
	Name() string
	// Relation says which data sets the bounds hold for.
	Relation() Relation
	// Epsilon returns the least ε that the accountant can show for the given δ (0 < δ < 1): 0 without events, +Inf
	// without noise.
	Epsilon(events []Event, delta float64) (float64, error)
	// Delta returns the least δ that the accountant can show for the given ε ≥ 0.
	Delta(events []Event, epsilon float64) (float64, error)
}

func (e Event) sampled() bool { return e.SamplingRate != 0 && e.SamplingRate != 1 }

func (e Event) validate() error {
	if !(e.Sigma >= 0) {
		return fmt.Errorf("accountant: noise multiplier is %g, want 0 or more", e.Sigma)
	}
	if !(e.SamplingRate >= 0 && e.SamplingRate <= 1) {
		return fmt.Errorf("accountant: sampling rate is %g, want 0 to 1", e.SamplingRate)
	}
	if e.Count < 0 {
		return fmt.Errorf("accountant: %d releases", e.Count)
	}
	return nil
}

func validDelta(delta float64) error {
	if !(delta > 0 && delta < 1) {
		return fmt.Errorf("accountant: delta is %g, want more than 0 and less than 1", delta)
	}
	return nil
}

func validEpsilon(epsilon float64) error {
	if !(epsilon >= 0) {
		return fmt.Errorf("accountant: epsilon is %g, want 0 or more", epsilon)
	}
	return nil
}

// Sigma returns the least noise multiplier with which rounds releases at the sampling rate stay within (ε, δ) by the
// accountant: conservative, in that Epsilon of the result is at most epsilon, and within a relative 1e-9 of the least.
// It returns 0 where no noise is needed (no rounds, or ε = +Inf).
func Sigma(a Accountant, epsilon, delta float64, rounds int, samplingRate float64) (float64, error) {
	if err := errors.Join(validEpsilon(epsilon), validDelta(delta), (Event{1, samplingRate, rounds}).validate()); err != nil {
		return 0, err
	}
	if rounds == 0 || math.IsInf(epsilon, 1) {
		return 0, nil
	}
	within := func(sigma float64) (bool, error) {
		e, err := a.Epsilon([]Event{{sigma, samplingRate, rounds}}, delta)
		return e <= epsilon, err
	}
	// ok suffices, short does not: the first sigma to try decides which of the two moves out first.
	short, ok := 0.0, math.Sqrt(float64(rounds))
	for {
		enough, err := within(ok)
		if err != nil {
			return 0, err
		}
		if enough {
			break
		}
		if short, ok = ok, 2*ok; ok > 1e150 {
			return 0, fmt.Errorf("accountant: %s shows epsilon %g at delta %g for no noise", a.Name(), epsilon, delta)
		}
	}
	for short == 0 {
		enough, err := within(ok / 2)
		if err != nil {
			return 0, err
		}
		if !enough {
			short = ok / 2
		} else if ok /= 2; ok < 1e-150 {
			return ok, nil
		}
	}
	for ok-short > 1e-9*ok {
		middle := short + (ok-short)/2
		enough, err := within(middle)
		if err != nil {
			return 0, err
		}
		if enough {
			ok = middle
		} else {
			short = middle
		}
	}
	return ok, nil
}

// Rounds returns how many releases of the given noise stay within (ε, δ), at most limit.
func Rounds(a Accountant, sigma, samplingRate, epsilon, delta float64, limit int) (int, error) {
	if err := errors.Join(validEpsilon(epsilon), validDelta(delta), (Event{sigma, samplingRate, limit}).validate()); err != nil {
		return 0, err
	}
	low, high := 0, limit+1 // low rounds are within, high are not or are one above the limit
	for low+1 < high {
		middle := low + (high-low)/2
		e, err := a.Epsilon([]Event{{sigma, samplingRate, middle}}, delta)
		if err != nil {
			return 0, err
		}
		if e <= epsilon {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}
