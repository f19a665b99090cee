package release

import (
	"slices"
	"testing"
)

func FuzzDecode(f *testing.F) {
	f.Add((&Release{Round: 1, Sum: []float64{1, 2}, Clients: 3, Sigma: 1, Query: "cosine/none", Bound: 1, Key: "k"}).Encode())
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err != nil {
			return
		}
		again, err := decode(r.Encode())
		if err != nil || again.Key != r.Key || again.Query != r.Query || !slices.Equal(r.Sum, again.Sum) {
			t.Errorf("%q does not survive: %v", b, err)
		}
	})
}
