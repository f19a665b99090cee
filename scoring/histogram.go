package scoring

import (
	"math"
	"math/rand/v2"

	"popri/internal/rng"
	"popri/model/embedding"
)

// histogram has a feature for each cluster of the public texts: 1 for the cluster whose centre is nearest to the text (ties
// to the lower index), 0 for the others. Their mean over texts is the texts' distribution over the clusters.
type histogram struct {
	centres []float64 // n×dim
	halves  []float64 // n: ‖centre‖²/2
	key     string
}

const (
	// clusterTexts is the number of public texts for each cluster that k-means is fitted on.
	clusterTexts = 32
	// clusterSteps is the largest number of steps of k-means.
	clusterSteps = 20
)

func newHistogram(public embedding.Matrix, n int, seed uint64) *histogram {
	random := rng.New(seed, "features", "histogram")
	order := random.Perm(public.Rows)[:min(public.Rows, n*clusterTexts)]
	texts := embedding.NewMatrix(len(order), public.Dim)
	for i, from := range order {
		copy(texts.Row(i), public.Row(from))
	}
	h := &histogram{centres: spread(texts, n, random)}
	nearest := make([]int, texts.Rows)
	for step := 0; step < clusterSteps && h.assign(texts, nearest) > 0; step++ {
		h.move(texts, nearest)
	}
	h.measure(texts.Dim)
	h.key = keyOf(HistogramFeatures, h.centres)
	return h
}

// spread chooses n texts as first centres, each with a chance in proportion to its squared distance from those before it
// (k-means++, Arthur and Vassilvitskii, SODA 2007). Where all texts are centres already, it repeats the first one.
func spread(texts embedding.Matrix, n int, random *rand.Rand) []float64 {
	centres := make([]float64, 0, n*texts.Dim)
	squares := make([]float64, texts.Rows)
	for i := range squares {
		squares[i] = math.Inf(1)
	}
	next := random.IntN(texts.Rows)
	for len(centres) < cap(centres) {
		row := texts.Row(next)
		for _, v := range row {
			centres = append(centres, float64(v))
		}
		parallel(texts.Rows, func(from, to int) {
			for i := from; i < to; i++ {
				d := distance(texts.Row(i), row, L2)
				squares[i] = min(squares[i], d*d)
			}
		})
		total := 0.0
		for _, s := range squares {
			total += s
		}
		next = 0
		for at := total * random.Float64(); next < len(squares)-1 && at >= squares[next]; next++ {
			at -= squares[next]
		}
	}
	return centres
}

// measure computes what of the distances depends on the centres alone.
func (h *histogram) measure(dim int) {
	h.halves = make([]float64, len(h.centres)/dim)
	for k := range h.halves {
		c := h.centres[k*dim : (k+1)*dim]
		h.halves[k] = dot(c, c) / 2
	}
}

// assign finds each text's nearest centre and returns the number of texts for which it is another one than before. At
// first all texts belong to centre 0, and the first call counts every text.
func (h *histogram) assign(texts embedding.Matrix, nearest []int) int {
	first := h.halves == nil
	h.measure(texts.Dim)
	now := make([]int, texts.Rows)
	parallelGrain(texts.Rows, 64, func(from, to int) {
		for i := from; i < to; i++ {
			now[i] = h.nearest(texts.Row(i))
		}
	})
	changed := 0
	for i := range now {
		if first || now[i] != nearest[i] {
			changed++
		}
	}
	copy(nearest, now)
	return changed
}

// move sets each centre to the mean of its texts. A centre without texts stays.
func (h *histogram) move(texts embedding.Matrix, nearest []int) {
	dim := texts.Dim
	sums, counts := make([]float64, len(h.centres)), make([]int, len(h.halves))
	for i, k := range nearest {
		counts[k]++
		for j, v := range texts.Row(i) {
			sums[k*dim+j] += float64(v)
		}
	}
	for k, n := range counts {
		for j := k * dim; n > 0 && j < (k+1)*dim; j++ {
			h.centres[j] = sums[j] / float64(n)
		}
	}
}

// nearest returns the index of the centre with the least ‖x − c‖² = ‖x‖² − 2(⟨x, c⟩ − ‖c‖²/2).
func (h *histogram) nearest(x []float32) int {
	best, most := 0, math.Inf(-1)
	for k, half := range h.halves {
		if v := dotOf(h.centres[k*len(x):(k+1)*len(x)], x) - half; v > most {
			best, most = k, v
		}
	}
	return best
}

// Len implements [Features].
func (h *histogram) Len() int { return len(h.halves) }

// Key implements [Features].
func (h *histogram) Key() string { return h.key }

// Of implements [Features].
func (h *histogram) Of(out []float64, x []float32) {
	clear(out)
	out[h.nearest(x)] = 1
}
