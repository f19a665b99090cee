package scoring

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"popri/model/embedding"
	"popri/scoring/query"
)

// ClippedCosine asks for a client's mean of its texts' cosines with each of s samples, each clipped on both sides (DP-RFT,
// arXiv 2602.18633, whose unit is a text; here it is a client):
//
//	v_j = bound/(c·√s) · mean over the client's texts x of min(max(cos(x, y_j), −c), c)        ‖v‖₂ ≤ bound
type ClippedCosine struct {
	facts
	samples embedding.Matrix
	most    float64
}

const clippedCosine = "cosine/clipped/"

// NewClippedCosine prepares the question about samples (unit vectors, one a row) with cosines between −most and most; key
// identifies them.
func NewClippedCosine(samples embedding.Matrix, most, bound float64, key string) (ClippedCosine, error) {
	if err := checkSamples(samples); err != nil {
		return ClippedCosine{}, err
	}
	if !(most > 0 && most <= 1) || !(bound > 0) || math.IsInf(bound, 1) || samples.Rows == 0 {
		return ClippedCosine{}, fmt.Errorf("scoring: cosines with %d samples, clipped to ±%g, with norm bound %g", samples.Rows,
			most, bound)
	}
	return ClippedCosine{facts{ClippedCosineName(most), key, bound, true}, samples, most}, nil
}

// ClippedCosineName is the name of the question: "cosine/clipped/0.5".
func ClippedCosineName(most float64) string {
	return clippedCosine + strconv.FormatFloat(most, 'g', -1, 64)
}

// parseClippedCosine is the inverse of [ClippedCosineName].
func parseClippedCosine(name string) (most float64, ok bool) {
	most, err := strconv.ParseFloat(strings.TrimPrefix(name, clippedCosine), 64)
	return most, err == nil && ClippedCosineName(most) == name
}

// Len implements query.Query.
func (q ClippedCosine) Len() int { return q.samples.Rows }

// Scale is what multiplies a mean clipped cosine in a client's vector: bound/(c·√s).
func (q ClippedCosine) Scale() float64 { return q.bound / (q.most * math.Sqrt(float64(q.Len()))) }

// Vector implements query.Query.
func (q ClippedCosine) Vector(clients query.Clients, i int) ([]float64, error) {
	if err := q.check(clients); err != nil {
		return nil, err
	}
	return q.cosines(clients.Of(i)), nil
}

// Sum implements query.Query.
func (q ClippedCosine) Sum(clients query.Clients) ([]float64, error) {
	if err := q.check(clients); err != nil {
		return nil, err
	}
	return textSum(q, clients, func(from, to int) []float64 { return q.cosines(clients.Texts.Slice(from, to)) })
}

func (q ClippedCosine) check(clients query.Clients) error {
	if err := checkTexts(clients); err != nil {
		return err
	}
	if clients.Texts.Dim != q.samples.Dim && clients.Texts.Rows > 0 {
		return fmt.Errorf("scoring: samples of %d dimensions, texts of %d", q.samples.Dim, clients.Texts.Dim)
	}
	return nil
}

// cosines is the vector of a client with these texts.
func (q ClippedCosine) cosines(texts embedding.Matrix) []float64 {
	out, scale := make([]float64, q.Len()), q.Scale()
	for t := range texts.Rows {
		for j := range out {
			cosine := -distance(q.samples.Row(j), texts.Row(t), CosineMetric)
			out[j] += min(max(cosine, -q.most), q.most) * scale / float64(texts.Rows)
		}
	}
	Clip(out, q.bound) // what rounding added
	return out
}
