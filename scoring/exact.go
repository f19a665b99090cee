package scoring

import (
	"fmt"
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
func unevaluate(b query.Block) unevaluated {
	u := unevaluated{make([]float64, len(b.Values)), make([]float64, len(b.Values))}
	for i := range b.Values {
		u.high[i], u.low[i] = b.Split(i)
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

// vectors adds up the vectors of n clients, each of at most the bound of a query: add adds those of a range.
func vectors(q query.Query, n int, add func(sum query.Block, from, to int) error) (query.Partial, error) {
	empty := func() (query.Partial, error) {
		b, err := query.NewBlock(q.Len(), q.Bound())
		return query.Partial{Blocks: []query.Block{b}}, err
	}
	return summed(n, empty, func(p query.Partial, from, to int) error { return add(p.Blocks[0], from, to) })
}

// textsOf adds up the clients' vectors, each made from the client's range of texts, for queries that look at all texts
// at once.
func textsOf(q query.Query, clients query.Clients, vector func(from, to int) []float64) (query.Partial, error) {
	return vectors(q, clients.Clients, func(sum query.Block, from, to int) error {
		for i := from; i < to; i++ {
			if err := sum.Add(1, vector(clients.Offsets[i], clients.Offsets[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
}

// summed adds up n clients on all processors: add adds those of a range to a sum that empty made. Sums are exact, so
// they do not depend on how the clients are divided. Of several errors, it returns that of the first clients.
func summed(n int, empty func() (query.Partial, error), add func(p query.Partial, from, to int) error) (query.Partial,
	error) {
	sum, err := empty()
	if err != nil {
		return query.Partial{}, err
	}
	var (
		mu    sync.Mutex
		first = n // where the first range with an error begins
	)
	parallel.Ranges(n, 256, func(from, to int) {
		part, failed := empty()
		if failed == nil {
			failed = add(part, from, to)
		}
		mu.Lock()
		defer mu.Unlock()
		if failed == nil {
			failed = sum.Merge(part)
		}
		if failed != nil && from < first {
			first, err = from, failed
		}
	})
	return sum, err
}

// finished is the sum of a query whose partial sums are of [vectors].
func finished(q query.Query, p query.Partial) ([]float64, error) {
	if err := checkShape(p, q.Len()); err != nil {
		return nil, err
	}
	return p.Blocks[0].Float64s(), nil
}

// checkShape refuses a partial sum whose blocks do not have the given lengths.
func checkShape(p query.Partial, lengths ...int) error {
	ok := len(p.Blocks) == len(lengths)
	for k := 0; ok && k < len(lengths); k++ {
		ok = len(p.Blocks[k].Values) == lengths[k]
	}
	if !ok {
		return fmt.Errorf("scoring: %w: it has blocks of %v (exponent, values), want %d values", query.ErrOtherSum,
			p.Shape(), lengths)
	}
	return nil
}

// sumOf computes the sum over all clients in one part.
func sumOf(q query.Mergeable, clients query.Clients) ([]float64, error) {
	p, err := q.Partial(clients)
	if err != nil {
		return nil, err
	}
	return q.Finish(p)
}
