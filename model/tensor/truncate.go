package tensor

import (
	"cmp"
	"math"
	"slices"
)

// truncation cuts off the tails of next-token distributions. It sorts only logits near the border: logits are counted
// in buckets by their distance from the largest. The zero value is ready; it is not safe for concurrent use.
type truncation struct {
	bucket []uint16
	border []int
	count  [buckets]int
}

// A bucket is 1/32 of a nat wide; the last one has all larger distances.
const (
	buckets       = 2048
	bucketsPerNat = 32
)

// keep sets to minus infinity all but the k largest logits; 0 keeps all. Ties at the border go to the lower id. A row with
// NaN or without a finite maximum stays as it is.
func (c *truncation) keep(row []float32, k int) {
	if k <= 0 || k >= len(row) {
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
	clear(c.count[:])
	for i, x := range row {
		b := uint16(buckets - 1)
		if d := (top - x) * bucketsPerNat; d < buckets-1 {
			b = uint16(d)
		}
		c.bucket[i] = b
		c.count[b]++
	}
	last := 0
	for ; k > c.count[last]; last++ {
		k -= c.count[last]
	}
	c.border = c.border[:0]
	for i, b := range c.bucket {
		switch {
		case int(b) > last:
			row[i] = float32(math.Inf(-1))
		case int(b) == last:
			c.border = append(c.border, i)
		}
	}
	slices.SortStableFunc(c.border, func(i, j int) int { return cmp.Compare(row[j], row[i]) })
	for _, i := range c.border[k:] {
		row[i] = float32(math.Inf(-1))
	}
}
