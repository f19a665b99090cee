package release

import (
	"errors"
	"reflect"
	"slices"
	"testing"
)

func FuzzDecode(f *testing.F) {
	f.Add((&Release{Round: 1, Sum: []float64{1, 2}, Clients: 3, Sigma: 1, Query: "cosine/none", Bound: 1,
		Key: "k"}).Encode())
	f.Add((&Release{Round: 1, Sum: []float64{1, 2}, Clients: 3, Narrow: true}).Encode())
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(r.Encode())
		if err != nil || again.Key != r.Key || again.Query != r.Query || !slices.Equal(r.Sum, again.Sum) {
			t.Errorf("%q does not survive: %v", b, err)
		}
	})
}

// TestNarrow: sums in float32 survive their file, and a file of another width is no release.
func TestNarrow(t *testing.T) {
	r := &Release{Round: 3, Sum: []float64{1, float64(float32(.1)), -0x1p-64}, Key: "k", Narrow: true, Tree: 2, Leaf: 1,
		Leaves: 4}
	content := r.Encode()
	got, err := Decode(content)
	if err != nil || !reflect.DeepEqual(got.Sum, r.Sum) || got.Tree != 2 || got.Leaf != 1 || got.Leaves != 4 ||
		len(r.Differs(got)) > 0 {
		t.Errorf("%+v (%v)", got, err)
	}
	if _, err := Decode(content[:len(content)-1]); !errors.Is(err, ErrMalformed) {
		t.Errorf("a file that was cut: %v", err)
	}
	wide := *r
	wide.Narrow = false
	if differences := wide.Differs(got); len(differences) != 1 {
		t.Errorf("differences %q", differences)
	}
}
