package accountant

import (
	"fmt"
	"math"
)

// clt is the central-limit approximation of many Poisson-sampled Gaussian releases (Bu, Dong, Long and Su 2020): a
// Gaussian release with μ = q·√(T·(e^(1/σ²) − 1)). It is not a bound: it is too low for few releases or little noise.
// It serves to compare with figures that others print.
type clt struct{}

// Name implements [Accountant].
func (clt) Name() string { return "gdp-clt" }

// Epsilon implements [Accountant], as an approximation.
func (clt) Epsilon(events []Event, delta float64) (float64, error) {
	if err := validDelta(delta); err != nil {
		return 0, err
	}
	mu, err := limitMu(events)
	if err != nil {
		return 0, err
	}
	return gaussianEpsilon(mu, delta), nil
}

// Delta implements [Accountant], as an approximation.
func (clt) Delta(events []Event, epsilon float64) (float64, error) {
	if err := validEpsilon(epsilon); err != nil {
		return 0, err
	}
	mu, err := limitMu(events)
	if err != nil {
		return 0, err
	}
	return math.Exp(gaussianLogDelta(mu, epsilon)), nil
}

func limitMu(events []Event) (float64, error) {
	_, events, err := checked(AddOrRemove, events)
	if err != nil {
		return 0, err
	}
	var squares float64
	for _, e := range events {
		if !e.continuous() || e.group() > 1 {
			return 0, fmt.Errorf("%w: the central limit is built for single clients and Gaussian noise",
				ErrNotApplicable)
		}
		if q := e.SamplingRate; e.sampled() {
			squares += float64(e.Count) * q * q * math.Expm1(1/(e.Sigma*e.Sigma))
		} else {
			squares += float64(e.Count) / (e.Sigma * e.Sigma)
		}
	}
	return math.Sqrt(squares), nil
}
