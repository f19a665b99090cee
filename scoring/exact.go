package scoring

import (
	"math"
	"sync"

	"popri/internal/parallel"
	"popri/scoring/query"
)

// twoSum returns the rounded sum and what rounding took from it (Knuth).
func twoSum(a, b float64) (sum, rest float64) {
	sum = a + b
	t := sum - a
	return sum, (a - (sum - t)) + (b - t)
}

// unevaluated is a vector to about twice the digits of a float64: high + low.
type unevaluated struct{ high, low []float64 }

// unevaluate reads exact whole numbers as such a vector.
func unevaluate(b exactSum) unevaluated {
	u := unevaluated{make([]float64, len(b.Values)), make([]float64, len(b.Values))}
	for i := range b.Values {
		u.high[i], u.low[i] = b.split(i)
	}
	return u
}

// exactDot returns the product of v with u to about twice the digits of a float64 (Ogita, Rump and Oishi 2005, Dot2),
// as two numbers that add up to it.
func exactDot(v []float64, u unevaluated) (high, low float64) {
	uh, ul := u.high[:len(v)], u.low[:len(v)]
	for j, x := range v {
		p := float64(x * uh[j])
		lost := math.FMA(x, uh[j], -p)
		s, rest := twoSum(high, p)
		high = s
		low += rest + lost + x*ul[j]
	}
	return high, low
}

// vectorSum adds up the vectors of n clients, each of at most the bound of a query: add adds those of a range.
func vectorSum(q query.Query, n int, add func(sum exactSum, from, to int) error) ([]float64, error) {
	sum, err := newExactSum(q.Len(), q.Bound())
	if err != nil {
		return nil, err
	}
	if err := inParallel(n, []exactSum{sum}, func(sums []exactSum, from, to int) error {
		return add(sums[0], from, to)
	}); err != nil {
		return nil, err
	}
	return sum.float64s(), nil
}

// textSum adds up the clients' vectors, each made from the client's range of texts, for queries that look at all texts
// at once.
func textSum(q query.Query, clients query.Clients, vector func(from, to int) []float64) ([]float64, error) {
	return vectorSum(q, clients.Clients, func(sum exactSum, from, to int) error {
		for i := from; i < to; i++ {
			if err := sum.add(1, vector(clients.Offsets[i], clients.Offsets[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
}

// inParallel adds n clients to sums on all processors: add adds those of a range. Sums are exact, so they do not depend
// on how the clients are divided. Of several errors, it returns that of the first clients.
func inParallel(n int, sums []exactSum, add func(sums []exactSum, from, to int) error) error {
	var (
		mu    sync.Mutex
		err   error
		first = n // where the first range with an error begins
	)
	parallel.Ranges(n, 256, func(from, to int) {
		part := make([]exactSum, len(sums))
		for k, s := range sums {
			part[k] = exactSum{s.Exponent, make([]int128, len(s.Values))}
		}
		failed := add(part, from, to)
		mu.Lock()
		defer mu.Unlock()
		for k := 0; k < len(sums) && failed == nil; k++ {
			failed = sums[k].merge(part[k])
		}
		if failed != nil && from < first {
			first, err = from, failed
		}
	})
	return err
}
