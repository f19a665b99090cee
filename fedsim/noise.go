package fedsim

import (
	"fmt"

	"popri/fedsim/noise"
	"popri/internal/rng"
	"popri/scoring/query"
)

// aggregator computes a noised sum, in steps of a grid. The noise was planned to be shared among asked clients, of whom
// the given clients answered.
type aggregator func(q query.Query, clients query.Clients, asked int, grid noise.Grid,
	source noise.Source) ([]int64, error)

var aggregators = map[Path]aggregator{Aggregate: aggregate, PerClient: perClient}

// aggregate sums by the fast path and adds, at once, the noise of the clients that answered.
func aggregate(q query.Query, clients query.Clients, asked int, grid noise.Grid, source noise.Source) ([]int64, error) {
	sum, err := q.Sum(clients)
	if err != nil {
		return nil, err
	}
	units := grid.Units
	if clients.Clients < asked {
		units = noise.Times(grid.Share(asked), clients.Clients)
	}
	out := rounded(sum, grid)
	return out, addNoise(out, units, source)
}

// rounded is a sum in steps of the grid.
func rounded(sum []float64, grid noise.Grid) []int64 {
	out := make([]int64, len(sum))
	for i, v := range sum {
		out[i] = grid.Round(v)
	}
	return out
}

// perClient lets every client round its own vector, add its share of the noise and send whole numbers, which add up
// without error. If nobody was drawn, the server adds the noise, so that the release does not reveal this.
func perClient(q query.Query, clients query.Clients, asked int, grid noise.Grid, source noise.Source) ([]int64, error) {
	sum := make([]int64, q.Len())
	if asked == 0 {
		return sum, addNoise(sum, grid.Units, source)
	}
	for i := range clients.Clients {
		v, err := q.Vector(clients, i)
		if err != nil {
			return nil, err
		}
		for j := range v {
			sum[j] += grid.Round(v[j])
		}
		if err := addNoise(sum, grid.Share(asked), source); err != nil {
			return nil, err
		}
	}
	return sum, nil
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
