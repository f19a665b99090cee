package downstream

import (
	"math"
	"slices"

	"popri/internal/numeric"
)

// compare computes the figures and their intervals.
func (u Suite) compare(results []Result) error {
	var zero, infinite, main []Score // nil without the point
	for _, r := range results {
		switch r.Key {
		case Public:
			zero = r.scores
		case Private:
			infinite = r.scores
		case u.Main:
			main = r.scores
		}
	}
	one := func(f func([]Score) float64) func(...[]Score) float64 {
		return func(l ...[]Score) float64 { return f(l[0]) }
	}
	for i := range results {
		r := &results[i]
		all := total(r.scores)
		r.Accuracy, r.Top3 = accuracyOf(r.scores), float64(all.Top3)/float64(all.Tokens)
		r.Top5 = float64(all.Top5) / float64(all.Tokens)
		if len(r.scores) > u.TestClients() {
			for one := range slices.Chunk(r.scores, u.TestClients()) {
				r.Accuracies = append(r.Accuracies, accuracyOf(one))
			}
		}
		var err error
		if r.AccuracyCI, err = u.interval(one(accuracyOf), r.scores); err != nil {
			return err
		}
		if u.classifies() {
			r.MacroF1 = new(MacroF1(r.scores))
			r.MacroF1CI, err = u.interval(one(MacroF1), r.scores)
		} else {
			r.Perplexity = perplexityOf(r.scores)
			r.PerplexityCI, err = u.interval(one(perplexityOf), r.scores)
			if zero != nil {
				r.Deciles = deciles(folded(r.scores, u.TestClients()), zero)
			}
		}
		if err != nil {
			return err
		}
		for _, f := range []struct {
			of    func([]Score) float64
			value **float64
			ci    **Interval
		}{{bitsOf, &r.Bits, &r.BitsCI}, {savedOf, &r.Saved, &r.SavedCI}} {
			v := f.of(r.scores)
			if !numeric.Finite(v) { // of a classification
				continue
			}
			*f.value = &v
			if *f.ci, err = u.interval(one(f.of), r.scores); err != nil {
				return err
			}
		}
		if main != nil && r.Key != u.Main {
			behind := func(l ...[]Score) float64 { return accuracyOf(l[0]) - accuracyOf(l[1]) }
			r.Deficit = new(behind(main, r.scores))
			if r.DeficitCI, err = u.interval(behind, main, r.scores); err != nil {
				return err
			}
		}
		if zero == nil || infinite == nil || accuracyOf(infinite) <= accuracyOf(zero) {
			continue
		}
		gap := gapClosed(r.scores, zero, infinite)
		if r.Key == Public || r.Key == Private || !numeric.Finite(gap) {
			continue
		}
		r.GapClosed = &gap
		r.GapClosedCI, err = u.interval(func(l ...[]Score) float64 { return gapClosed(l[0], l[1], l[2]) },
			r.scores, zero, infinite)
		if err != nil {
			return err
		}
	}
	return nil
}

// interval returns nil if there is no interval: without draws, or if the statistic is not finite in any draw.
func (u Suite) interval(statistic func(...[]Score) float64, lists ...[]Score) (*Interval, error) {
	if u.Draws == 0 {
		return nil, nil
	}
	i, err := bootstrap(u.TestClients(), u.Draws, u.Options.Seed, statistic, lists...)
	if err != nil || math.IsNaN(i[0]) || math.IsNaN(i[1]) {
		return nil, err
	}
	return &i, nil
}
