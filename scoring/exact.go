package scoring

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"sync"

	"popri/internal/numeric"
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

// vectorSum adds up the vectors of n clients, each of at most the bound of a query: add adds the vectors of a range.
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

// inParallel adds n clients to sums on all processors: add adds the clients of a range. Sums are exact, so they do not
// depend on how the clients are divided. Of several errors, it returns the error of the first clients.
func inParallel(n int, sums []exactSum, add func(sums []exactSum, from, to int) error) error {
	var (
		mu    sync.Mutex
		err   error
		first = n // where the first range with an error begins
	)
	parallel.Ranges(n, 256, func(from, to int) {
		part := numeric.Map(sums, func(s exactSum) exactSum {
			return exactSum{s.Exponent, make([]int128, len(s.Values))}
		})
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

// int128 is a whole number of 128 bits in two's complement: High·2^64 + Low.
type int128 struct {
	High int64
	Low  uint64
}

// exactSum is a sum of vectors in whole numbers of steps of 2^Exponent. It does not depend on the order of the addends.
type exactSum struct {
	Exponent int
	Values   []int128
}

// stepBits is how many binary digits a single addend can have at most, less one, so that it fits 64 bits with room to
// spare. A sum of 128 bits then holds more than 2^60 addends.
const stepBits = 60

// The exponents of a sum: far beyond what bounded vectors need, and within what a float64 can scale by.
const leastExponent, mostExponent = -900, 900

// newExactSum returns n zeros with a step that is so fine that an addend of magnitude limit has 61 binary digits.
func newExactSum(n int, limit float64) (exactSum, error) {
	if !(limit > 0) || math.IsInf(limit, 1) {
		return exactSum{}, fmt.Errorf("scoring: an exact sum of values up to %g", limit)
	}
	e := math.Ilogb(limit) - stepBits
	if e < leastExponent || e > mostExponent {
		return exactSum{}, fmt.Errorf("scoring: an exact sum of values up to %g, which is out of range", limit)
	}
	return exactSum{e, make([]int128, n)}, nil
}

// add adds weight·v, each product rounded to a float64 and then to a whole number of steps. A product of more than
// twice the limit of [newExactSum] is an error, and so is one that is not a number.
func (b exactSum) add(weight float64, v []float64) error {
	scale := math.Ldexp(1, -b.Exponent)
	values := b.Values[:len(v)]
	for j, x := range v {
		p := math.RoundToEven(float64(weight*x) * scale)
		if !(p > -1<<62 && p < 1<<62) {
			return fmt.Errorf("scoring: value %d of a vector is %g, more than its bound allows", j, weight*x)
		}
		k := int64(p)
		var carry uint64
		values[j].Low, carry = bits.Add64(values[j].Low, uint64(k), 0)
		values[j].High += k>>63 + int64(carry)
	}
	return nil
}

// split returns value i as two numbers: the nearest float64, and what it lacks, rounded.
func (b exactSum) split(i int) (high, low float64) {
	exact := b.Values[i].big()
	high, _ = new(big.Float).SetInt(exact).Float64()
	nearest, _ := new(big.Float).SetFloat64(high).Int(nil)
	low, _ = new(big.Float).SetInt(exact.Sub(exact, nearest)).Float64()
	return math.Ldexp(high, b.Exponent), math.Ldexp(low, b.Exponent)
}

// float64s are the values, each rounded once.
func (b exactSum) float64s() []float64 {
	out := make([]float64, len(b.Values))
	for i := range out {
		out[i], _ = b.split(i)
	}
	return out
}

// big is the number as a big integer.
func (x int128) big() *big.Int {
	z := new(big.Int).SetInt64(x.High)
	return z.Add(z.Lsh(z, 64), new(big.Int).SetUint64(x.Low))
}

// merge adds other, a sum with the same step and length, to b. A number beyond 128 bits is an error.
func (b exactSum) merge(other exactSum) error {
	for i, y := range other.Values {
		x := &b.Values[i]
		low, carry := bits.Add64(x.Low, y.Low, 0)
		high := x.High + y.High + int64(carry)
		if (x.High < 0) == (y.High < 0) && (high < 0) != (x.High < 0) {
			return fmt.Errorf("scoring: value %d of a sum has more than 128 bits", i)
		}
		x.High, x.Low = high, low
	}
	return nil
}
