package cost

import (
	"slices"
	"testing"

	"popri/internal/fault"
	"popri/study/grid"
)

func TestRungs(t *testing.T) {
	for _, c := range []struct {
		h         Halving
		n, rounds int
		want      []Rung
	}{
		{Halving{3, 1}, 9, 9, []Rung{{1, 3}, {3, 1}}},
		{Halving{3, 1}, 10, 9, []Rung{{1, 3}, {3, 1}}},
		{Halving{3, 1}, 9, 8, []Rung{{2, 3}}}, // a ninth of 8 rounds is none
		{Halving{2, 2}, 16, 8, []Rung{{2, 8}, {4, 4}}},
		{Halving{2, 1}, 3, 8, []Rung{{4, 1}}},
		{Halving{3, 1}, 2, 9, nil},
		{Halving{3, 4}, 9, 9, nil},
		{Halving{1, 1}, 9, 9, nil},
		{Halving{3, 0}, 9, 9, nil},
	} {
		cells := make([]grid.Cell, c.n)
		for i := range cells {
			cells[i].Config.Method, cells[i].Config.Trainer.Rounds = "popri", c.rounds
		}
		got, err := c.h.Plan(cells, 1)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) || err != nil && !fault.IsUser(err) {
			t.Errorf("%+v of %d settings and %d rounds: %v (%v), want %v", c.h, c.n, c.rounds, got, err, c.want)
		}
	}
}
