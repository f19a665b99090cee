package fedsim

import (
	"popri/accountant/ledger"
	"popri/fedsim/noise"
	"popri/internal/places"
)

// cohort draws the clients of a round, in ascending order.
func (c Config) cohort(source noise.Source, train int) []int {
	var drawn []int
	switch c.Sampling {
	case ledger.Poisson:
		rate := float64(c.Cohort) / float64(train)
		for i := range train {
			if noise.Chance(source, rate) {
				drawn = append(drawn, i)
			}
		}
	case ledger.Fixed:
		// Selection sampling (Knuth, algorithm S): each remaining client is taken with probability wanted/left.
		wanted := c.Cohort
		for i := range train {
			if noise.Below(source, uint64(train-i)) < uint64(wanted) {
				drawn = append(drawn, i)
				wanted--
			}
		}
	default:
		return places.All(train)
	}
	return drawn
}
