package tensor

import (
	"math"
	"slices"
)

// truncation cuts off the tails of next-token distributions. It sorts only logits near the border: logits are counted
// in buckets by their distance from the largest. The zero value is ready; it is not safe for concurrent use.
type truncation struct {
	e      []float32
	bucket []uint16
	border []int
	count  [buckets]int
	mass   [buckets]float64
}

// A bucket is 1/32 of a nat wide; the last one has all larger distances.
const (
	buckets       = 2048
	bucketsPerNat = 32
)

// apply sets to minus infinity the logits outside the k likeliest (0: all), and of the rest the ones outside the
// smallest set of the likeliest whose probability at the temperature reaches p (0 or 1: all). Ties at
// the border go to the lower id. A row with NaN or without a finite maximum stays as it is.
func (c *truncation) apply(row []float32, k int, p, temperature float64) {
	byCount, byMass := k > 0 && k < len(row), p > 0 && p < 1
	if !byCount && !byMass {
		return
	}
	top := float32(math.Inf(-1))
	for _, x := range row {
		if x != x {
			return
		}
		top = max(top, x)
	}
	if math.IsInf(float64(top), 0) {
		return
	}
	c.bucket = slices.Grow(c.bucket[:0], len(row))[:len(row)]
	scale := float32(bucketsPerNat / temperature)
	clear(c.count[:])
	for i, x := range row {
		b := uint16(buckets - 1)
		if d := (top - x) * scale; d < buckets-1 {
			b = uint16(d)
		}
		c.bucket[i] = b
		c.count[b]++
	}
	if byCount {
		b := 0
		for ; k > c.count[b]; b++ {
			k -= c.count[b]
		}
		c.cutAt(row, b, func([]int) int { return k })
	}
	if !byMass {
		return
	}
	c.e = slices.Grow(c.e[:0], len(row))[:len(row)]
	exponentials(c.e, row, top, 1/temperature)
	clear(c.mass[:])
	total := 0.0
	for i, b := range c.bucket {
		c.mass[b] += float64(c.e[i])
	}
	for _, m := range c.mass {
		total += m
	}
	b, sum := 0, 0.0
	for ; b < buckets-1 && sum+c.mass[b] < p*total; b++ {
		sum += c.mass[b]
	}
	c.cutAt(row, b, func(ids []int) int {
		for n, i := range ids {
			if sum += float64(c.e[i]); sum >= p*total {
				return n + 1
			}
		}
		return len(ids)
	})
}

// cutAt drops the buckets behind b, and of b's ids, likeliest first, all but the first keep(ids).
func (c *truncation) cutAt(row []float32, b int, keep func(ids []int) int) {
	c.border = c.border[:0]
	for i, x := range c.bucket {
		switch {
		case int(x) > b:
			row[i] = float32(math.Inf(-1))
		case int(x) == b:
			c.border = append(c.border, i)
		}
	}
	slices.SortStableFunc(c.border, func(i, j int) int {
		switch {
		case row[i] > row[j]:
			return -1
		case row[i] < row[j]:
			return 1
		}
		return 0
	})
	for _, i := range c.border[keep(c.border):] {
		row[i] = float32(math.Inf(-1))
	}
}
