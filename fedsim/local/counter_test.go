package local_test

import (
	"reflect"
	"testing"

	"popri/datasets/clients"
	"popri/fedsim/local"
	"popri/model/lm"
)

// TestCounter: each client has the rows of its own texts.
func TestCounter(t *testing.T) {
	c := local.NewCounter([]clients.Client{{Texts: []string{"a", "bc"}}, {}}, func(texts []string) (rows []lm.Row) {
		for _, text := range texts {
			rows = append(rows, lm.Row{Tokens: []int32{0, int32(len(text))}})
		}
		return rows
	})
	if c.N() != 2 || !reflect.DeepEqual(c.Rows(0), [][]int32{{0, 1}, {0, 2}}) || len(c.Rows(1)) != 0 {
		t.Errorf("%d clients, rows %v and %v", c.N(), c.Rows(0), c.Rows(1))
	}
}
