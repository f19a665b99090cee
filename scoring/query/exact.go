package query

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
)

// Mergeable is a query whose sum can be computed in parts, by machines that each hold some of the clients. The parts
// are whole numbers, so the sum does not depend on how the clients are divided:
//
//	q.Sum(all) == q.Finish(q.Partial(some) + q.Partial(others))     to the last bit
type Mergeable interface {
	Query
	// Partial is the exact sum over the given clients. It is private data.
	Partial(c Clients) (Partial, error)
	// Finish turns the exact sum over all clients into what Sum returns.
	Finish(p Partial) ([]float64, error)
}

// Int128 is a whole number of 128 bits in two's complement: High·2^64 + Low.
type Int128 struct {
	High int64
	Low  uint64
}

// Block is a vector of whole numbers of steps of 2^Exponent.
type Block struct {
	Exponent int
	Values   []Int128
}

// stepBits is how many binary digits a single addend can have at most, less one, so that it fits 64 bits with room to
// spare. A sum of 128 bits then holds more than 2^60 addends.
const stepBits = 60

// The exponents of a block: far beyond what bounded vectors need, and within what a float64 can scale by.
const leastExponent, mostExponent = -900, 900

// NewBlock returns n zeros with a step that is so fine that an addend of magnitude limit has 61 binary digits.
func NewBlock(n int, limit float64) (Block, error) {
	if !(limit > 0) || math.IsInf(limit, 1) {
		return Block{}, fmt.Errorf("query: an exact sum of values up to %g", limit)
	}
	e := math.Ilogb(limit) - stepBits
	if e < leastExponent || e > mostExponent {
		return Block{}, fmt.Errorf("query: an exact sum of values up to %g, which is out of range", limit)
	}
	return Block{e, make([]Int128, n)}, nil
}

// Add adds weight·v, each product rounded to a float64 and then to a whole number of steps. A product of more than
// twice the limit of [NewBlock] is an error, and so is one that is not a number.
func (b Block) Add(weight float64, v []float64) error {
	scale := math.Ldexp(1, -b.Exponent)
	values := b.Values[:len(v)]
	for j, x := range v {
		p := math.RoundToEven(float64(weight*x) * scale)
		if !(p > -1<<62 && p < 1<<62) {
			return fmt.Errorf("query: value %d of a vector is %g, more than its bound allows", j, weight*x)
		}
		k := int64(p)
		var carry uint64
		values[j].Low, carry = bits.Add64(values[j].Low, uint64(k), 0)
		values[j].High += k>>63 + int64(carry)
	}
	return nil
}

// Split returns value i as two numbers: the nearest float64, and what it lacks, rounded.
func (b Block) Split(i int) (high, low float64) {
	exact := b.Values[i].big()
	high, _ = new(big.Float).SetInt(exact).Float64()
	nearest, _ := new(big.Float).SetFloat64(high).Int(nil)
	low, _ = new(big.Float).SetInt(exact.Sub(exact, nearest)).Float64()
	return math.Ldexp(high, b.Exponent), math.Ldexp(low, b.Exponent)
}

// Float64s are the values, each rounded once.
func (b Block) Float64s() []float64 {
	out := make([]float64, len(b.Values))
	for i := range out {
		out[i], _ = b.Split(i)
	}
	return out
}

// big is the number as a big integer.
func (x Int128) big() *big.Int {
	z := new(big.Int).SetInt64(x.High)
	return z.Add(z.Lsh(z, 64), new(big.Int).SetUint64(x.Low))
}

// Partial is the exact sum of some clients' vectors, in the form in which the query adds them up. It is private data.
type Partial struct{ Blocks []Block }

// ErrOtherSum marks partial sums that do not belong together.
var ErrOtherSum = errors.New("the partial sums are not of the same query")

// Shape lists, block by block, the exponent and the number of values.
func (p Partial) Shape() [][2]int {
	var out [][2]int
	for _, b := range p.Blocks {
		out = append(out, [2]int{b.Exponent, len(b.Values)})
	}
	return out
}

// Merge adds other to p in place. Sums of another shape are [ErrOtherSum]; a number beyond 128 bits is an error.
func (p Partial) Merge(other Partial) error {
	if !slices.Equal(p.Shape(), other.Shape()) {
		return fmt.Errorf("query: %w: exponents and lengths are %v and %v", ErrOtherSum, p.Shape(), other.Shape())
	}
	for k, b := range p.Blocks {
		for i, y := range other.Blocks[k].Values {
			x := &b.Values[i]
			low, carry := bits.Add64(x.Low, y.Low, 0)
			high := x.High + y.High + int64(carry)
			if (x.High < 0) == (y.High < 0) && (high < 0) != (x.High < 0) {
				return fmt.Errorf("query: value %d of block %d of the sum has more than 128 bits", i, k)
			}
			x.High, x.Low = high, low
		}
	}
	return nil
}

// AppendTo appends the values to out, 16 bytes each, little-endian. The shape is not part of it.
func (p Partial) AppendTo(out []byte) []byte {
	for _, b := range p.Blocks {
		for _, x := range b.Values {
			out = binary.LittleEndian.AppendUint64(out, x.Low)
			out = binary.LittleEndian.AppendUint64(out, uint64(x.High))
		}
	}
	return out
}

// ParsePartial is the inverse of [Partial.AppendTo] for a sum of the given shape.
func ParsePartial(shape [][2]int, content []byte) (Partial, error) {
	left := len(content) / 16
	for k, s := range shape {
		if s[0] < leastExponent || s[0] > mostExponent || s[1] < 0 || s[1] > left {
			return Partial{}, fmt.Errorf("query: block %d of a partial sum has exponent %d and %d values, in %d bytes",
				k, s[0], s[1], len(content))
		}
		left -= s[1]
	}
	if left != 0 || len(content)%16 != 0 {
		return Partial{}, fmt.Errorf("query: a partial sum of %d bytes, which is not 16 for each value", len(content))
	}
	var p Partial
	for _, s := range shape {
		b := Block{s[0], make([]Int128, s[1])}
		for i := range b.Values {
			b.Values[i] = Int128{Low: binary.LittleEndian.Uint64(content),
				High: int64(binary.LittleEndian.Uint64(content[8:]))}
			content = content[16:]
		}
		p.Blocks = append(p.Blocks, b)
	}
	return p, nil
}
