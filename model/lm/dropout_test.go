package lm

import (
	"math"
	"reflect"
	"testing"

	"popri/model/tensor"
)

func TestDropout(t *testing.T) {
	err := tensor.Run(func(s *tensor.Scope) error {
		x := s.Full(tensor.Float32, 3, 100, 101)
		mask := func(d dropout, site int) []float32 { return s.Float32s(d.apply(s, x, site)) }
		for _, rate := range []float64{0, 0.1, 0.5, 0.9} {
			d := dropout{Dropout: Dropout{Rate: rate, Seed: 7}}
			zeros, sum := 0, 0.0
			for _, v := range mask(d, dropWeights) {
				if v == 0 {
					zeros++
				} else if want := 3 / (1 - rate); math.Abs(float64(v)-want) > 1e-5 {
					t.Fatalf("rate %g: a value is %g, want 0 or %g", rate, v, want)
				}
				sum += float64(v)
			}
			// Five standard deviations of 10 100 draws.
			if got := float64(zeros) / 10100; math.Abs(got-rate) > 5*math.Sqrt(rate*(1-rate)/10100) {
				t.Errorf("rate %g: %g are 0", rate, got)
			}
			if rate > 0 && math.Abs(sum/10100/3-1) > 5*math.Sqrt(rate/(1-rate)/10100) {
				t.Errorf("rate %g: the mean changes by the factor %g", rate, sum/10100/3)
			}
		}
		d := dropout{Dropout: Dropout{Rate: 0.5, Seed: 7}}
		first := mask(d.in(1), dropMLP)
		if !reflect.DeepEqual(mask(d.in(1), dropMLP), first) {
			t.Error("the same site has two masks")
		}
		for _, other := range [][]float32{mask(d.in(2), dropMLP), mask(d.in(1), dropAttention),
			mask(dropout{Dropout{0.5, 8}, 1}, dropMLP)} {
			if reflect.DeepEqual(other, first) {
				t.Error("another block, site or pass has the same mask")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A part without a row, and one without a token to predict, change nothing.
func TestEmptyParts(t *testing.T) {
	m := newSmall(t, small()["gpt2"])
	o := newDescent(t, m)
	rows := []Row{{Tokens: []int32{1, 2, 3, 4}}, {Tokens: []int32{7}}}
	for _, c := range []struct {
		rows  []Row
		parts int
	}{{rows[:1], 4}, {rows, 2}} {
		loss, norm, err := o.step(c.rows, c.parts, 0)
		whole, same, err2 := o.step(rows[:1], 1, 0)
		if err != nil || err2 != nil || math.Abs(loss-whole) > 1e-6 || math.Abs(norm-same) > 1e-5 {
			t.Errorf("%d rows in %d parts: loss %g, norm %g, %v; the row alone %g, %g, %v", len(c.rows), c.parts, loss,
				norm, err, whole, same, err2)
		}
	}
}
