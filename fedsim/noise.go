package fedsim

import (
	"fmt"

	"popri/fedsim/noise"
	"popri/internal/rng"
	"popri/scoring/query"
)

// aggregate is a noised sum, in steps of a grid. It is made at once, for simulation; clients of a secure aggregation would each
// add a share of the noise. A test compares both.
func aggregate(q query.Query, clients query.Clients, grid noise.Grid, source noise.Source) ([]int64, error) {
	sum, err := q.Sum(clients)
	if err != nil {
		return nil, err
	}
	out := rounded(sum, grid)
	return out, addNoise(out, grid.Units, source)
}

// rounded is a sum in steps of the grid.
func rounded(sum []float64, grid noise.Grid) []int64 {
	out := make([]int64, len(sum))
	for i, v := range sum {
		out[i] = grid.Round(v)
	}
	return out
}

func addNoise(sum []int64, units uint64, source noise.Source) error {
	if units == 0 {
		return nil
	}
	g, err := noise.NewGaussian(source, units)
	if err != nil {
		return err
	}
	for i := range sum {
		sum[i] += g.Next()
	}
	return nil
}

// source is the source of a round's random numbers: the system's entropy or, insecurely, a seed.
func source(seed *uint64, purpose string, round int) noise.Source {
	if seed != nil {
		return rng.New(*seed, purpose, fmt.Sprint(round))
	}
	return noise.Secure()
}
