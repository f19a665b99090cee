package metrics

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"popri/internal/parallel"
)

// PrecisionRecall returns the fraction of generated points that are among real ones, and of real points that are among
// generated ones (Kynkäänniemi et al., arXiv 1904.06991). A point is among a set if it is within the ball around at
// least one point of it, whose radius is the L2 distance to that point's k-th nearest other point; the edge counts as
// inside. Each set needs more than k points. It takes n² · dim operations, on all processors.
func PrecisionRecall(real, generated []float32, dim, k int) (precision, recall float64, err error) {
	nReal, err := rows(real, dim)
	if err != nil {
		return 0, 0, fmt.Errorf("real points: %w", err)
	}
	nGenerated, err := rows(generated, dim)
	if err != nil {
		return 0, 0, fmt.Errorf("generated points: %w", err)
	}
	if k < 1 || min(nReal, nGenerated) <= k {
		return 0, 0, fmt.Errorf("metrics: the %d-th nearest neighbour of %d real and %d generated points does not "+
			"exist", k, nReal, nGenerated)
	}
	realRadii, generatedRadii := radii(real, dim, k), radii(generated, dim, k)
	return fractionInside(real, realRadii, generated, dim), fractionInside(generated, generatedRadii, real, dim), nil
}

// radii returns the squared distance from every point to its k-th nearest other one.
func radii(points []float32, dim, k int) []float64 {
	n := len(points) / dim
	out := make([]float64, n)
	parallel.Each(n, func(i int) {
		nearest := slices.Repeat([]float64{math.Inf(1)}, k) // ascending
		a := points[i*dim : (i+1)*dim]
		for j := range n {
			if j == i {
				continue
			}
			d := squaredDistance(a, points[j*dim:(j+1)*dim], nearest[k-1])
			at := k
			for at > 0 && d < nearest[at-1] {
				at--
			}
			if at < k {
				copy(nearest[at+1:], nearest[at:])
				nearest[at] = d
			}
		}
		out[i] = nearest[k-1]
	})
	return out
}

// fractionInside returns the fraction of queries that are in a ball around a reference point with its squared radius.
func fractionInside(reference []float32, radii []float64, queries []float32, dim int) float64 {
	n := len(queries) / dim
	var inside atomic.Int64
	parallel.Each(n, func(i int) {
		q := queries[i*dim : (i+1)*dim]
		for j, radius := range radii {
			if squaredDistance(q, reference[j*dim:(j+1)*dim], radius) <= radius {
				inside.Add(1)
				return
			}
		}
	})
	return float64(inside.Load()) / float64(n)
}

// squaredDistance subtracts before it squares: with products of the points, two equal points would not be at distance
// 0. It is exactly symmetric. Once the sum exceeds limit it stops, and returns a value above limit.
func squaredDistance(a, b []float32, limit float64) float64 {
	const stretch = 32 // between two comparisons with the limit
	var s0, s1, s2, s3 float64
	for len(a) >= stretch {
		p, q := (*[stretch]float32)(a), (*[stretch]float32)(b)
		for i := 0; i < stretch; i += 4 {
			d0, d1 := float64(p[i])-float64(q[i]), float64(p[i+1])-float64(q[i+1])
			d2, d3 := float64(p[i+2])-float64(q[i+2]), float64(p[i+3])-float64(q[i+3])
			s0 += d0 * d0
			s1 += d1 * d1
			s2 += d2 * d2
			s3 += d3 * d3
		}
		if s0+s1+s2+s3 > limit {
			return s0 + s1 + s2 + s3
		}
		a, b = a[stretch:], b[stretch:]
	}
	for i, v := range a {
		d := float64(v) - float64(b[i])
		s0 += d * d
	}
	return s0 + s1 + s2 + s3
}
