package rounds

import (
	"testing"

	"popri/show/series"
)

// A figure falls where it is below its last fall by more than chance; small steps add up.
func TestProgressOf(t *testing.T) {
	list := func(values ...float64) (out []series.Round) {
		for i, v := range values {
			r := series.NewRound(i + 1)
			r.Set(Distance, v)
			r.Set(Distance+Chance, 0.003)
			out = append(out, *r)
		}
		return out
	}
	after := list(0.4, 0.3)
	after[1].Set(Distance+After, 0.2)
	further := list(0.4, 0.3, 0.2) // the second round was the last one at first
	further[1].Set(Distance+After, 0.2)
	for name, c := range map[string]struct {
		rounds []series.Round
		least  float64
		idle   int
		last   float64
	}{
		"falls":            {list(0.4, 0.38, 0.36), 0.36, 0, 0.36},
		"by chance only":   {list(0.4, 0.398, 0.399, 0.397), 0.4, 3, 0.397},
		"small steps":      {list(0.4, 0.397, 0.394, 0.391), 0.394, 1, 0.391},
		"up and down":      {list(0.4, 0.3, 0.35, 0.32, 0.29), 0.29, 0, 0.29},
		"the last adapter": {after, 0.2, 0, 0.2},
		"further rounds":   {further, 0.2, 0, 0.2},
	} {
		p := ProgressOf(c.rounds, Distance)
		if p.Least != c.least || p.Idle != c.idle || p.Last != c.last || p.First != 0.4 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := ProgressOf(list(0.4), FID); p.Measured != 0 {
		t.Errorf("a figure that is not there: %+v", p)
	}
}
