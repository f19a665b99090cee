package fedsim

import (
	"popri/accountant/ledger"
	"popri/fedsim/noise"
)

// cohort draws the clients of a round, in ascending order.
func (c Config) cohort(source noise.Source, train int) []int {
	var drawn []int
	switch c.Sampling {
	case ledger.Poisson:
		rate := c.charge(train).SamplingRate
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
		for i := range train {
			drawn = append(drawn, i)
		}
	}
	return drawn
}

// answering leaves out the clients that do not answer.
func (c Config) answering(source noise.Source, asked []int) []int {
	if c.Dropout == 0 {
		return asked
	}
	var left []int
	for _, i := range asked {
		if !noise.Chance(source, c.Dropout) {
			left = append(left, i)
		}
	}
	return left
}
