package trainer

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Schedule gives the learning rate of each update, under the names that transformers users know.
type Schedule struct {
	Kind   string  // one of [Schedules]
	Peak   float64 // learning rate after the warm-up
	Min    float64 // learning rate that cosine_with_min_lr ends at
	Warmup int     // steps of linear warm-up; the first of them has rate 0; unused by constant
	Total  int     // steps in all
}

// Schedules are the names that [Schedule] understands.
var Schedules = []string{"constant", "constant_with_warmup", "linear", "cosine", "cosine_with_min_lr"}

// Constant is the schedule of one learning rate.
func Constant(rate float64) Schedule { return Schedule{Kind: "constant", Peak: rate, Total: 1} }

// Check returns an error that names the field that makes no sense.
func (s Schedule) Check() error {
	switch {
	case !slices.Contains(Schedules, s.Kind):
		return fmt.Errorf("schedule %q is unknown (%s)", s.Kind, strings.Join(Schedules, ", "))
	case !(s.Peak >= 0) || math.IsInf(s.Peak, 0):
		return fmt.Errorf("learning rate %g", s.Peak)
	case s.Min < 0 || s.Min > s.Peak:
		return fmt.Errorf("minimum learning rate %g is not between 0 and %g", s.Min, s.Peak)
	case s.Warmup < 0 || s.Total < 1:
		return fmt.Errorf("%d warm-up steps of %d", s.Warmup, s.Total)
	}
	return nil
}

// At returns the rate of step k, counted from 0: lr·k/w below the warm-up w; then constant, or falling over the
// remaining steps by a line to 0, by half a cosine to 0, or by half a cosine to the minimum. As in transformers,
// "constant" is constant from the first step on.
func (s Schedule) At(k int) float64 {
	if k < s.Warmup && s.Kind != "constant" {
		return s.Peak * float64(k) / float64(s.Warmup)
	}
	p := float64(k-s.Warmup) / float64(max(1, s.Total-s.Warmup))
	p = math.Min(p, 1)
	switch s.Kind {
	case "linear":
		return s.Peak * (1 - p)
	case "cosine":
		return s.Peak * (1 + math.Cos(math.Pi*p)) / 2
	case "cosine_with_min_lr":
		return s.Min + (s.Peak-s.Min)*(1+math.Cos(math.Pi*p))/2
	}
	return s.Peak
}
