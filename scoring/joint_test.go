package scoring

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"popri/fedsim/noise"
	"popri/internal/rng"
	"popri/scoring/query"
)

// TestJoint: each part of a client's mean has its share of the squared bound, whatever its length, and the words have no centre.
func TestJoint(t *testing.T) {
	const bound, share = 2, 0.7
	centre := []float64{1, 1, 0}
	q, err := NewJoint(3, JointOptions{Centre: centre, Words: 2, Share: share, Bound: bound, Checks: 1}, "k")
	if err != nil {
		t.Fatal(err)
	}
	means := query.Means{Clients: 2, Dim: 5, Data: []float64{1, 1, 5, 300, 400, 3, 1, 0, 0, 0}}
	first, second := bound*math.Sqrt(1-share), bound*math.Sqrt(share)
	for i, want := range [][]float64{{0, 0, first, 0.6 * second, 0.8 * second, 0}, {first, 0, 0, 0, 0, 0}} {
		v, err := q.Vector(query.Clients{Means: means}, i)
		if err != nil || !slices.EqualFunc(v, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
			t.Errorf("client %d answers %v, want %v (%v)", i, v, want, err)
		}
	}
	if _, err := q.Vector(query.Clients{Means: query.Means{Clients: 1, Dim: 4, Data: make([]float64, 4)}}, 0); err == nil {
		t.Error("a mean without all of the words is no error")
	}
	for _, o := range []JointOptions{{Words: 0, Share: 0.5, Bound: 1}, {Words: 3, Share: 1, Bound: 1}, {Words: 3, Share: 0.5},
		{Words: 3, Share: 0.5, Bound: 1, Checks: -1}, {Words: 3, Share: 0.5, Bound: 1, Centre: []float64{1}}} {
		if _, err := NewJoint(3, o, "k"); err == nil {
			t.Errorf("%+v is no error", o)
		}
	}
}

// Whatever the clients' means, no client moves the rounded sum by more than the grid's sensitivity.
func FuzzJointSensitivity(f *testing.F) {
	f.Add([]byte("twelve bytes and then some more bytes, for several clients of any bits at all"), 0.3, uint64(1))
	f.Add(make([]byte, 200), 0.999, uint64(2))
	f.Add([]byte{255, 255, 127, 127, 0, 0, 128, 255, 1, 0, 0, 0, 0, 0, 0, 128}, 1e-9, uint64(3))
	f.Fuzz(func(t *testing.T, bits []byte, share float64, seed uint64) {
		const dim, words, clients = 3, 4, 5
		if !(share > 0 && share < 1) {
			share = 0.5
		}
		r := rng.New(seed, "FuzzJointSensitivity")
		q, err := NewJoint(dim, JointOptions{Centre: normals(r, dim, 1), Words: words, Share: share, Bound: 1, Checks: 3}, "k")
		if err != nil {
			t.Fatal(err)
		}
		means := query.Means{Clients: clients, Dim: dim + words, Data: make([]float64, clients*(dim+words))}
		bad := false
		for j := range means.Data {
			if len(bits) < 8 {
				break
			}
			x := math.Float64frombits(binary.LittleEndian.Uint64(bits))
			means.Data[j], bits = x, bits[8:]
			bad = bad || math.IsNaN(x) || math.IsInf(x, 0)
		}
		sum, err := q.Sum(query.Clients{Means: means})
		if bad || err != nil {
			if bad != (err != nil) {
				t.Fatalf("means with a value that is no number: %t, error %v", bad, err)
			}
			return
		}
		grid, err := noise.NewGrid(1, q.Bound(), q.Len(), clients)
		if err != nil {
			t.Fatal(err)
		}
		for i := range clients {
			less := query.Means{Clients: clients, Dim: means.Dim, Data: slices.Clone(means.Data)}
			clear(less.Row(i))
			without, err := q.Sum(query.Clients{Means: less})
			if err != nil {
				t.Fatal(err)
			}
			moved := 0.0
			for j := range sum {
				x := grid.Value(grid.Round(sum[j]) - grid.Round(without[j]))
				moved += x * x
			}
			if !(math.Sqrt(moved) <= grid.Sensitivity) {
				t.Errorf("client %d moves the sum by %.12g, charged are %.12g", i, math.Sqrt(moved), grid.Sensitivity)
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
	}{{"mean/full+1024", 1040, 16, false}, {"mean", 5, 5, false}, {"mean/full/words/20/0.7+1024", 1060, 36, false},
		{"mean/full+1024", 1024, 0, true},
		{"mean/full/words/20/0.7+1024", 1044, 0, true}} {
		got, ok, err := CheckedOf(c.name, c.values)
		if !ok || (err != nil) != c.bad || got.Rank() != c.rank {
			t.Errorf("%s with %d values: %+v, %v, %v", c.name, c.values, got, ok, err)
		}
	}
	if _, ok, err := CheckedOf("cosine/none", 5); ok || err != nil {
		t.Errorf("cosines: %v, %v", ok, err)
	}
}
