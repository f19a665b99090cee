package scoring

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"popri/fedsim/noise"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring/query"
)

var someFeatures = []FeatureOptions{{FourierFeatures, 30, 0.3}, {HistogramFeatures, 8, 0.5}, {MomentFeatures, 15, 0.1}}

// TestFeaturesConform: features are finite and the same however they are computed, depend on the texts and the seed alone,
// and are told apart by their keys.
func TestFeaturesConform(t *testing.T) {
	r := rng.New(1, t.Name())
	public := unitMatrix(r, 300, 9)
	zero := make([]float32, 9)
	for _, o := range someFeatures {
		f, err := o.Fit(public, 1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := o.Fit(public, 1)
		if err != nil || again.Key() != f.Key() || f.Len() != o.Len() {
			t.Errorf("%s: %d features, keys %s and %s (%v)", o, f.Len(), f.Key(), again.Key(), err)
		}
		less, err := o.Fit(public.Slice(0, 200), 1)
		if err != nil {
			t.Fatal(err)
		}
		if less.Key() == f.Key() {
			t.Errorf("%s: features of other texts have the same key", o)
		}
		all := FeaturesOf(f, public)
		one, two := make([]float64, f.Len()), make([]float64, f.Len())
		for i := range public.Rows {
			f.Of(one, public.Row(i))
			again.Of(two, public.Row(i))
			for j, v := range one {
				if float32(v) != all.Row(i)[j] || v != two[j] {
					t.Fatalf("%s: feature %d of text %d is %g, %g and %g", o, j, i, v, two[j], all.Row(i)[j])
				}
			}
		}
		f.Of(one, zero)
		for j, v := range one {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: feature %d of an empty text is %g", o, j, v)
			}
		}
		if _, err := o.Fit(embedding.NewMatrix(0, 9), 1); err == nil {
			t.Errorf("%s: no texts are no error", o)
		}
		broken := embedding.NewMatrix(2, 9)
		broken.Data[4] = float32(math.NaN())
		if _, err := o.Fit(broken, 1); err == nil {
			t.Errorf("%s: a text that is no number is no error", o)
		}
	}
	for _, o := range []FeatureOptions{{"x", 5, 0.3}, {FourierFeatures, 0, 0.3}, {MomentFeatures, 5, 0}, {HistogramFeatures, 5, 1}} {
		if _, err := o.Fit(public, 1); err == nil {
			t.Errorf("%s is no error", o)
		}
	}
}

// TestFourierFeaturesEstimateTheKernel: the mean error of n features is of the order 1/√n.
func TestFourierFeaturesEstimateTheKernel(t *testing.T) {
	r := rng.New(2, t.Name())
	public := unitMatrix(r, 200, 12)
	const n = 8000
	f := newFourier(public, n, 3)
	values := FeaturesOf(f, public)
	square := 0.0 // of a frequency: n·dim values of variance 1/h²
	for _, w := range f.frequencies {
		square += w * w
	}
	h := math.Sqrt(float64(len(f.frequencies)) / square)
	var pairs []float64
	for i := range public.Rows {
		for j := range i {
			pairs = append(pairs, distance(public.Row(i), public.Row(j), L2))
		}
	}
	slices.Sort(pairs)
	if median := pairs[len(pairs)/2]; !(math.Abs(h-median) < 0.03*median) {
		t.Errorf("the bandwidth is %g, the median distance %g", h, median)
	}
	errors := 0.0
	for i := range 100 {
		a, b := public.Row(i), public.Row(i+100)
		d, estimate := distance(a, b, L2), 0.0
		for j, v := range values.Row(i) {
			estimate += float64(v) * float64(values.Row(i + 100)[j])
		}
		errors += math.Pow(estimate-math.Exp(-d*d/2/h/h), 2) / 100
	}
	if rms := math.Sqrt(errors); rms > 2/math.Sqrt(n) {
		t.Errorf("the kernel's root mean square error is %g", rms)
	}
}

// TestHistogramFindsClusters: texts around separate directions fall into a cluster each.
func TestHistogramFindsClusters(t *testing.T) {
	r := rng.New(4, t.Name())
	const kinds, dim = 7, 10
	texts := embedding.NewMatrix(700, dim)
	for i := range texts.Rows {
		for j := range dim {
			texts.Row(i)[j] = float32(0.05 * r.NormFloat64())
		}
		texts.Row(i)[i%kinds]++
	}
	values := FeaturesOf(newHistogram(texts, kinds, 1), texts)
	cluster := map[int]int{} // of a kind
	for i := range texts.Rows {
		for k, v := range values.Row(i) {
			if v == 0 {
				continue
			}
			if was, ok := cluster[i%kinds]; v != 1 || ok && was != k {
				t.Fatalf("text %d of kind %d has %g in cluster %d, others of its kind are in %d", i, i%kinds, v, k, was)
			}
			cluster[i%kinds] = k
		}
	}
	used := map[int]bool{}
	for _, k := range cluster {
		used[k] = true
	}
	if len(used) != kinds {
		t.Errorf("%d kinds are in clusters %v", kinds, cluster)
	}
}

// TestMomentsAreTheQuadraticKernel: with all directions, the product of two texts' features is the square of the product
// of the texts less their mean.
func TestMomentsAreTheQuadraticKernel(t *testing.T) {
	r := rng.New(5, t.Name())
	public := unitMatrix(r, 150, 6)
	f, err := newMoments(public, 6)
	if err != nil {
		t.Fatal(err)
	}
	mean := make([]float64, 6)
	query.MeanRow(mean, public)
	a, b := make([]float64, f.Len()), make([]float64, f.Len())
	for i := range 50 {
		x, y := public.Row(i), public.Row(i+50)
		f.Of(a, x)
		f.Of(b, y)
		product := 0.0
		for j, m := range mean {
			product += (float64(x[j]) - m) * (float64(y[j]) - m)
		}
		if got := dot(a, b); math.Abs(got-product*product) > 1e-9 {
			t.Errorf("texts %d and %d: %g, want %g", i, i+50, got, product*product)
		}
	}
	// The first of fewer directions are those of the largest variance.
	two, err := newMoments(public, 2)
	if err != nil {
		t.Fatal(err)
	}
	variance := make([]float64, 6)
	for i := range public.Rows {
		f.Of(a, public.Row(i))
		at := 0
		for k := range variance {
			variance[k] += a[at]
			at += 6 - k
		}
	}
	for k := range 5 {
		if variance[k] < variance[k+1] {
			t.Errorf("direction %d has less variance than the next", k)
		}
	}
	for j, v := range two.directions {
		if v != f.directions[j] {
			t.Fatalf("direction %d of two is not that of six", j/6)
		}
	}
}

// Whatever the texts' embeddings, no client moves the rounded sum by more than the grid's sensitivity.
func FuzzJointSensitivity(f *testing.F) {
	f.Add([]byte("twelve bytes and then some more bytes, for several texts of any bits at all"), byte(0), 0.3, uint64(1))
	f.Add(make([]byte, 200), byte(1), 0.999, uint64(2))
	f.Add([]byte{255, 255, 127, 127, 0, 0, 128, 255, 1, 0, 0, 0, 0, 0, 0, 128}, byte(2), 1e-9, uint64(3))
	f.Fuzz(func(t *testing.T, bits []byte, kind byte, share float64, seed uint64) {
		const dim, clients = 4, 5
		o := someFeatures[int(kind)%len(someFeatures)]
		if share > 0 && share < 1 {
			o.Share = share
		}
		r := rng.New(seed, "FuzzJointSensitivity")
		q, err := askJoint(JointOptions{Features: o, Bound: 1, Checks: 3}, unitMatrix(r, 60, dim), "k")
		if err != nil {
			t.Fatal(err)
		}
		texts := embedding.Matrix{Dim: dim}
		for ; len(bits) >= 4*dim && texts.Rows < 40; bits = bits[4*dim:] {
			for j := range dim {
				texts.Data = append(texts.Data, math.Float32frombits(binary.LittleEndian.Uint32(bits[4*j:])))
			}
			texts.Rows++
		}
		offsets := []int{0}
		for i := range clients {
			offsets = append(offsets, texts.Rows*(i+1)/clients)
		}
		means, err := query.MeanEmbeddings(texts, offsets)
		if err != nil {
			t.Fatal(err)
		}
		held := query.Clients{Means: means, Texts: texts, Offsets: offsets}
		sum, err := q.Sum(held)
		for _, x := range texts.Data {
			if !finite(x) {
				if err == nil {
					t.Fatal("a text that is no number is no error")
				}
				return
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		grid, err := noise.NewGrid(1, q.Bound(), q.Len(), clients)
		if err != nil {
			t.Fatal(err)
		}
		for i := range clients {
			less := query.Clients{Means: query.Means{Clients: clients, Dim: dim, Data: append([]float64(nil), means.Data...)},
				Texts: embedding.Matrix{Dim: dim}, Offsets: []int{0}}
			clear(less.Row(i))
			for k := range clients {
				if m := held.Of(k); k != i {
					less.Texts.Data = append(less.Texts.Data, m.Data...)
					less.Texts.Rows += m.Rows
				}
				less.Offsets = append(less.Offsets, less.Texts.Rows)
			}
			without, err := q.Sum(less)
			if err != nil {
				t.Fatal(err)
			}
			moved := 0.0
			for j := range sum {
				x := grid.Value(grid.Round(sum[j]) - grid.Round(without[j]))
				moved += x * x
			}
			if !(math.Sqrt(moved) <= grid.Sensitivity) {
				t.Errorf("%s: client %d moves the sum by %.12g, charged are %.12g", o, i, math.Sqrt(moved), grid.Sensitivity)
			}
		}
	})
}

// TestCheckedShapes: the shape of a release is read from its name, and a name that does not fit its values is an error.
func TestCheckedShapes(t *testing.T) {
	for _, c := range []struct {
		name         string
		values, rank int
		bad          bool
	}{{"mean/full+1024", 1040, 16, false}, {"mean", 5, 5, false}, {"mean/full/fourier/20/0.3+1024", 1060, 36, false},
		{"mean/full/moments/20/0.3+1024", 1024 + 15 + 9, 24, false}, {"mean/full+1024", 1024, 0, true},
		{"mean/full/fourier/20/0.3+1024", 1044, 0, true}} {
		got, ok, err := CheckedOf(c.name, c.values)
		if !ok || (err != nil) != c.bad || got.Rank() != c.rank {
			t.Errorf("%s with %d values: %+v, %v, %v", c.name, c.values, got, ok, err)
		}
	}
	if _, ok, err := CheckedOf("cosine/none", 5); ok || err != nil {
		t.Errorf("cosines: %v, %v", ok, err)
	}
}
