package scoring

import (
	"fmt"
	"math"

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

// exactDot returns the product of v with u to about twice the digits of a float64 (Ogita, Rump and Oishi 2005, Dot2), as
// two numbers that add up to it.
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

// vectors adds up vectors of at most the bound of a query, value by value.
func vectors(q query.Query) (query.Block, error) { return query.NewBlock(q.Len(), q.Bound()) }

// single is the partial sum of a query that adds up its clients' vectors, and has err instead if that is not nil.
func single(b query.Block, err error) (query.Partial, error) {
	if err != nil {
		return query.Partial{}, err
	}
	return query.Partial{Blocks: []query.Block{b}}, nil
}

// partialOf adds up the clients' vectors, one after the other.
func partialOf(q query.Query, clients query.Clients) (query.Partial, error) {
	sum, err := vectors(q)
	for i := 0; i < clients.Clients && err == nil; i++ {
		var v []float64
		if v, err = q.Vector(clients, i); err == nil {
			err = sum.Add(1, v)
		}
	}
	return single(sum, err)
}

// textsOf adds up the clients' vectors, each made from the client's range of texts, for queries that look at all texts at once.
func textsOf(q query.Query, clients query.Clients, vector func(from, to int) []float64) (query.Partial, error) {
	sum, err := vectors(q)
	for i := 0; i < clients.Clients && err == nil; i++ {
		err = sum.Add(1, vector(clients.Offsets[i], clients.Offsets[i+1]))
	}
	return single(sum, err)
}

// finished is the sum of a query whose partial sums are of [single].
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
		return fmt.Errorf("scoring: %w: it has blocks of %v (exponent, values), want %d values", query.ErrOtherSum, p.Shape(), lengths)
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
