package query

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

func block(t testing.TB, n int, limit float64) Block {
	t.Helper()
	b, err := NewBlock(n, limit)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The sum of numbers of any size and sign is that of exact fractions, however it is divided, and is rounded once.
func TestExactSums(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []float64{1, 3, 1e-200, 1e200} {
		whole, parts := block(t, 1, limit), []Block{block(t, 1, limit), block(t, 1, limit), block(t, 1, limit)}
		step := math.Ldexp(1, whole.Exponent)
		want := new(big.Float).SetPrec(300)
		for range 2000 {
			x := limit * math.Ldexp(2*r.Float64()-1, -r.IntN(60))
			for _, b := range []Block{whole, parts[r.IntN(3)]} {
				if err := b.Add(1, []float64{x}); err != nil {
					t.Fatal(err)
				}
			}
			want.Add(want, new(big.Float).SetFloat64(math.RoundToEven(x/step)*step))
		}
		merged := Partial{[]Block{parts[0]}}
		for _, p := range parts[1:] {
			if err := merged.Merge(Partial{[]Block{p}}); err != nil {
				t.Fatal(err)
			}
		}
		nearest, _ := want.Float64()
		lost, _ := new(big.Float).Sub(want, new(big.Float).SetFloat64(nearest)).Float64()
		high, low := whole.Split(0)
		if got := whole.Float64s()[0]; got != nearest || high != nearest || low != lost ||
			!slices.Equal(merged.Blocks[0].Values, whole.Values) {
			t.Errorf("limit %g: %g + %g, want %g + %g; merged %v and %v", limit, high, low, nearest, lost, merged,
				whole)
		}
	}
}

func TestRefusedNumbers(t *testing.T) {
	for _, limit := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-300, 1e300} {
		if _, err := NewBlock(1, limit); err == nil {
			t.Errorf("limit %g is accepted", limit)
		}
	}
	b := block(t, 2, 1)
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 8, -8} {
		if err := b.Add(1, []float64{0, x}); err == nil {
			t.Errorf("%g is added to values of at most 1", x)
		}
	}
	p := Partial{[]Block{b}}
	for name, other := range map[string]Partial{"another exponent": {[]Block{block(t, 2, 2)}},
		"another length": {[]Block{block(t, 3, 1)}}, "no block": {}, "two blocks": {[]Block{b, b}}} {
		if err := p.Merge(other); !errors.Is(err, ErrOtherSum) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, x := range []Int128{{High: math.MaxInt64, Low: math.MaxUint64}, {High: math.MinInt64}} {
		p := Partial{[]Block{{0, []Int128{x}}}}
		if err := p.Merge(p); err == nil {
			t.Errorf("%v twice fits 128 bits", x)
		}
	}
}

// FuzzParsePartial: any content gives an error or the sum that is written as this content.
func FuzzParsePartial(f *testing.F) {
	f.Add(0, 1, -3, 0, make([]byte, 16))
	f.Add(-900, 2, 900, 1, make([]byte, 48))
	f.Add(5, -1, 5, 1<<62, make([]byte, 7))
	f.Fuzz(func(t *testing.T, e0, n0, e1, n1 int, content []byte) {
		shape := [][2]int{{e0, n0}, {e1, n1}}
		p, err := ParsePartial(shape, content)
		if err != nil {
			return
		}
		if !slices.Equal(p.Shape(), shape) || !slices.Equal(p.AppendTo(nil), content) {
			t.Errorf("%v of %d bytes is read as %v", shape, len(content), p.Shape())
		}
	})
}
