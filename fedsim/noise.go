package fedsim

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"popri/fedsim/aggregate"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/rng"
	"popri/scoring/query"
)

// fastSum is the exact sum of the clients' vectors, computed at once, in steps of a grid.
func fastSum(q query.Query, clients query.Clients, grid noise.Grid) ([]int64, error) {
	sum, err := q.Sum(clients)
	if err != nil {
		return nil, err
	}
	return rounded(sum, grid), nil
}

// clientSum adds up the clients' vectors, each rounded to the grid by itself, as clients of two aggregators do. Whole
// numbers give the same sum in any order.
func clientSum(q query.Query, clients query.Clients, grid noise.Grid) ([]int64, error) {
	workers := max(1, min(runtime.GOMAXPROCS(0), clients.Clients))
	sums, errs := make([][]int64, workers), make([]error, workers)
	var done sync.WaitGroup
	for w := range workers {
		done.Go(func() {
			sums[w] = make([]int64, q.Len())
			for i := w; i < clients.Clients && errs[w] == nil; i += workers {
				v, err := q.Vector(clients, i)
				if err == nil {
					err = aggregate.AddRounded(sums[w], v, q.Bound(), grid)
				}
				if err != nil {
					errs[w] = fmt.Errorf("client %d: %w", i, err)
				}
			}
		})
	}
	done.Wait()
	for _, s := range sums[1:] {
		add(sums[0], s)
	}
	return sums[0], errors.Join(errs...)
}

func add(sum, steps []int64) {
	for i, k := range steps {
		sum[i] += k
	}
}

// rounded is a sum in steps of the grid.
func rounded(sum []float64, grid noise.Grid) []int64 {
	out := make([]int64, len(sum))
	for i, v := range sum {
		out[i] = grid.Round(v)
	}
	return out
}

// addNoise adds the noise of a release: of one party or, with two aggregators, of both.
func (f *Federation) addNoise(steps []int64, grid noise.Grid, r release.Request) error {
	switch {
	case grid.Units == 0:
		return nil
	case f.config.Least == 0:
		return aggregate.AddNoise(steps, grid, source(f.config.InsecureSeed, "noise", r))
	}
	for _, role := range aggregate.Roles {
		if err := aggregate.AddNoise(steps, grid,
			aggregate.NoiseSource(f.config.InsecureSeed, role, r.Round)); err != nil {
			return err
		}
	}
	return nil
}

// source is the source of a release's random numbers: the system's entropy or, insecurely, a seed.
func source(seed *uint64, purpose string, r release.Request) noise.Source {
	switch {
	case seed == nil:
		return noise.Secure()
	case r.Part > 0:
		return rng.New(*seed, purpose, fmt.Sprint(r.Round), fmt.Sprint(r.Part))
	}
	return rng.New(*seed, purpose, fmt.Sprint(r.Round))
}

// uniform is a number in [0, 1), a multiple of 2^-53.
func uniform(s noise.Source) float64 { return float64(s.Uint64()>>11) / (1 << 53) }
