package scoring

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"popri/model/embedding"
)

// Features map the embedding of a text to further values. Their mean over a client's texts tells more of the texts'
// distribution than the mean embedding alone. They are chosen from public texts and a seed, so that they say nothing of
// the clients. Implementations are safe for concurrent use.
type Features interface {
	// Len is the number of features.
	Len() int
	// Of writes the features of the embedding x, of finite values, into out.
	Of(out []float64, x []float32)
	// Key identifies the features.
	Key() string
}

// The kinds of [Features].
const (
	FourierFeatures   = "fourier"
	HistogramFeatures = "histogram"
	MomentFeatures    = "moments"
)

// FeatureOptions say which features are asked for beside the mean embedding.
type FeatureOptions struct {
	Kind string
	// Count is the largest number of features; see [FeatureOptions.Len].
	Count int
	// Share is that of the squared norm bound which the features get, above 0 and below 1.
	Share float64
}

// Validate returns an error that names the bad value.
func (o FeatureOptions) Validate() error {
	switch {
	case o.Kind != FourierFeatures && o.Kind != HistogramFeatures && o.Kind != MomentFeatures:
		return fmt.Errorf("scoring: features are %.40q, want %q, %q or %q", o.Kind, FourierFeatures, HistogramFeatures,
			MomentFeatures)
	case o.Count < 1 || o.Count > mostFeatures:
		return fmt.Errorf("scoring: %d features, want 1 to %d", o.Count, mostFeatures)
	case !(o.Share > 0 && o.Share < 1):
		return fmt.Errorf("scoring: the features' share of the squared norm bound is %g, want more than 0 and less than 1", o.Share)
	}
	return nil
}

// mostFeatures keeps a request whose name somebody made up from taking all memory.
const mostFeatures = 1 << 16

// Len is the number of features: Count, but with moments those of p directions, p(p+1)/2, for the largest p that fits.
func (o FeatureOptions) Len() int {
	if o.Kind == MomentFeatures {
		p := o.Directions()
		return p * (p + 1) / 2
	}
	return o.Count
}

// Directions is the largest p with p(p+1)/2 ≤ Count: the number of directions whose second moments are asked for.
func (o FeatureOptions) Directions() int {
	p := 1
	for (p+1)*(p+2)/2 <= o.Count {
		p++
	}
	return p
}

// blocks splits a norm bound into that of the mean embedding, √(1−s)·bound, and that of the features, √s·bound.
func (o FeatureOptions) blocks(bound float64) (mean, features float64) {
	return bound * math.Sqrt(1-o.Share), bound * math.Sqrt(o.Share)
}

// String names the options: "fourier/256/0.3".
func (o FeatureOptions) String() string {
	return o.Kind + "/" + strconv.Itoa(o.Count) + "/" + strconv.FormatFloat(o.Share, 'g', -1, 64)
}

// parseFeatures is the inverse of String.
func parseFeatures(name string) (o FeatureOptions, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return o, false
	}
	o.Kind = parts[0]
	o.Count, _ = strconv.Atoi(parts[1])
	o.Share, _ = strconv.ParseFloat(parts[2], 64)
	return o, o.Validate() == nil && o.String() == name
}

// Fit chooses the features from public texts' embeddings, one a row. Too few different texts, or fewer dimensions than
// directions, leave some features at a constant.
func (o FeatureOptions) Fit(public embedding.Matrix, seed uint64) (Features, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := public.Check(); err != nil {
		return nil, fmt.Errorf("scoring: features: %w", err)
	}
	if public.Rows == 0 {
		return nil, fmt.Errorf("scoring: there are no public texts to choose features from")
	}
	for i, x := range public.Data {
		if !finite(x) {
			return nil, fmt.Errorf("scoring: public text %d has value %g", i/public.Dim, x)
		}
	}
	switch o.Kind {
	case FourierFeatures:
		return newFourier(public, o.Count, seed), nil
	case HistogramFeatures:
		return newHistogram(public, o.Count, seed), nil
	}
	return newMoments(public, o.Directions())
}

// FeaturesOf returns the features of each row of m, whose values must be finite.
func FeaturesOf(f Features, m embedding.Matrix) embedding.Matrix {
	out := embedding.NewMatrix(m.Rows, f.Len())
	parallelGrain(m.Rows, 64, func(from, to int) {
		values := make([]float64, f.Len())
		for i := from; i < to; i++ {
			f.Of(values, m.Row(i))
			for j, v := range values {
				out.Row(i)[j] = float32(v)
			}
		}
	})
	return out
}

func finite(x float32) bool { return x == x && !math.IsInf(float64(x), 0) }

// dotOf is the product of a vector with an embedding, with four independent sums as in dot.
func dotOf(a []float64, x []float32) float64 {
	x = x[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * float64(x[i])
		s1 += a[i+1] * float64(x[i+1])
		s2 += a[i+2] * float64(x[i+2])
		s3 += a[i+3] * float64(x[i+3])
	}
	for ; i < len(a); i++ {
		s0 += a[i] * float64(x[i])
	}
	return (s0 + s1) + (s2 + s3)
}

// keyOf hashes the numbers that features consist of.
func keyOf(kind string, parts ...[]float64) string {
	h := sha256.New()
	fmt.Fprintln(h, kind)
	for _, part := range parts {
		fmt.Fprintln(h, len(part))
		for _, v := range part {
			fmt.Fprintf(h, "%016x", math.Float64bits(v))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
